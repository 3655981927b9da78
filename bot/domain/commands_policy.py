"""Which commands a model may run: what no rule allows is refused; what is allowed is words, never a shell's text."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from bot.domain import words as grammar
from bot.domain.errors import UserError
from bot.domain.presets import PRESETS
from bot.domain.presets.preset import Option, Preset
from bot.domain.words import NotWords, leads_out


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """The words to run, exactly these, and the rule that allows them."""

    argv: tuple[str, ...]
    rule: str


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Why, as a sentence; what would be allowed, where there is such a thing; and the rule that says no: a preset, a
    repository's rule, `words` (the line can't be read) or `default deny`."""

    reason: str
    rule: str
    hint: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """A repository's rule: these words, and any further ones if it is open."""

    text: str
    words: tuple[str, ...]
    is_open: bool

    @property
    def allows_as(self) -> str:
        return f"commands.allow: {self.text}"

    def allows(self, argv: Sequence[str]) -> bool:
        begins = tuple(argv[: len(self.words)]) == self.words
        return begins and (self.is_open or len(argv) == len(self.words))


_HINTS = {
    "cd": "Commands run in the repository's top folder; name paths from there.",
    "curl": "There is no network.",
    "wget": "There is no network.",
    "bash": "Name the program itself; there is no shell.",
    "sh": "Name the program itself; there is no shell.",
    "env": "Name the program itself; the environment is fixed.",
    "xargs": "Name the program itself, with its arguments.",
    "timeout": "Name the program itself; every command has a time-out.",
    "rm": "Use the tool remove_file.",
    "mv": "Use the tools read_file, write_file and remove_file.",
    "cp": "Use the tools read_file and write_file.",
    "tee": "Use the tool write_file.",
    "touch": "Use the tool write_file.",
    "mkdir": "The tool write_file makes the folders it needs.",
    "echo": "Say it in your reply; files are written with write_file.",
    "sed": "Lines are shown by `sed -n '10,20p' FILE` and changed by the tool edit_file.",
    "npm": "Packages are installed by `setup` in the repository's config.",
    "pip": "Packages are installed by `setup` in the repository's config.",
}
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_NUMBER = re.compile(r"-\d{1,9}[A-Za-z]?")
_WRAPPERS = {"gradlew": "gradle", "mvnw": "mvn"}
"""Scripts of a repository that fetch a tool and start it with the same arguments. They are files the model can write,
and they reach out: so a repository's rule has to name them."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The rules of one episode. Deciding reads nothing and runs nothing, and its work is bounded by the limits on a
    command's length and words."""

    allow: tuple[_Rule, ...]
    deny: tuple[_Rule, ...]
    presets: Mapping[str, tuple[Preset, ...]]

    @classmethod
    def of(
        cls, allow: Sequence[str] = (), deny: Sequence[str] = (), ecosystems: Collection[str] | None = None
    ) -> Policy:
        """The presets of these ecosystems (None: of all) and the repository's rules, of which `deny` wins over
        everything. UserError for a rule that `rule_problem` finds fault with."""
        by_program: dict[str, tuple[Preset, ...]] = {}
        for preset in PRESETS:
            if preset.ecosystem is None or ecosystems is None or preset.ecosystem in ecosystems:
                by_program[preset.words[0]] = (*by_program.get(preset.words[0], ()), preset)
        return cls(allow=tuple(map(_checked, allow)), deny=tuple(map(_checked, deny)), presets=by_program)

    def words(self, text: str) -> tuple[str, ...] | Refused:
        """The words of a text that becomes part of a command; none of them leads out of the repository."""
        found = grammar.split(text)
        if isinstance(found, NotWords):
            return _refused(found)
        return _out(found, "default deny") or found

    def decide(self, command: str) -> Allowed | Refused:
        """Whether a command line may run, and as which words."""
        argv = grammar.split(command)
        if isinstance(argv, NotWords):
            return _refused(argv)
        if _ASSIGNMENT.match(argv[0]):
            return Refused(reason="A command can't set variables.", rule="words", hint="Begin with the program.")
        preset = self._preset(argv)
        reading = None if preset is None else _Reading(preset, argv[len(preset.words) :])
        problem = self._unknown(argv) if reading is None else reading.refusal()
        if (denied := self._denied(argv, None if problem else reading)) is not None:
            name = f"commands.deny: {denied.text}"
            return Refused(reason=f"The rule `{name}` forbids this.", rule=name)
        if preset is not None and problem is None:
            return Allowed(argv=argv, rule=f"preset {preset.name}")
        assert problem is not None
        for rule in self.allow:
            if rule.allows(argv):
                found = self._beyond(rule, argv)
                if found is None:
                    return Allowed(argv=argv, rule=rule.allows_as)
                problem = found
        return problem

    def _beyond(self, rule: _Rule, argv: tuple[str, ...]) -> Refused | None:
        """Why a rule that fits does not allow the words that its `*` stands for. A rule adds the words it names; what
        comes in by `*` can't lead out, and where a preset knows the program, it is what that preset allows: `find *`
        does not bring in `-exec`."""
        further = argv[len(rule.words) :]
        if (out := _out(further, rule.allows_as)) is not None:
            return out
        plain = (_program(argv[0]), *argv[1:])
        preset = self._preset(plain)
        if preset is not None:
            named = max(0, len(rule.words) - len(preset.words))
            refusal = _Reading(preset, plain[len(preset.words) :], named=named).refusal()
        elif plain[0] in self.presets and further and further[0].startswith("-"):
            refusal = Refused(reason=f"`{further[0][:100]}` is an option that no preset allows.", rule="default deny")
        else:
            return None
        if refusal is None:
            return None
        hint = f"`*` in `{rule.allows_as}` brings in no such word; a rule has to name it."
        return Refused(reason=refusal.reason, rule=rule.allows_as, hint=hint)

    def _preset(self, argv: Sequence[str]) -> Preset | None:
        """The preset with the longest beginning that fits."""
        fitting = [
            preset for preset in self.presets.get(argv[0], ()) if tuple(argv[: len(preset.words)]) == preset.words
        ]
        return max(fitting, key=lambda preset: len(preset.words), default=None)

    def _canonical(self, argv: Sequence[str]) -> list[str]:
        """The same command as the first of the ways to start its tool has it."""
        plain = [_program(argv[0]), *argv[1:]]
        preset = self._preset(plain)
        return plain if preset is None else [*preset.name.split(), *plain[len(preset.words) :]]

    def _denied(self, argv: Sequence[str], reading: _Reading | None) -> _Rule | None:
        """A rule denies whatever begins with its words, options in between or not, and its options anywhere; also by
        another way to start the same tool (`python -m pytest`). Where no preset has read the command, nobody knows
        which words are options' values, and a rule denies it if its words are there in their order."""
        if not self.deny:
            return None
        forms = [_plain(argv), _plain(self._canonical(argv))]
        if reading is not None:
            forms += [[*_plain(reading.preset.words), *reading.rest], [*reading.preset.name.split(), *reading.rest]]
        for rule in self.deny:
            for words in (list(rule.words), self._canonical(rule.words)):
                plain = _plain(words)
                begins = any(form[: len(plain)] == plain for form in forms)
                may_begin = reading is None and any(_holds(form, plain) for form in forms)
                dashed = [word for word in words if word.startswith("-")]
                if (begins or may_begin) and all(_has(argv, word, reading) for word in dashed):
                    return rule
        return None

    def _unknown(self, argv: Sequence[str]) -> Refused:
        program = argv[0][:100]
        if "/" in program:
            return Refused(
                reason=f"`{program}` names a program by its path.",
                rule="default deny",
                hint="Use the program's name, or have `commands.allow` name it.",
            )
        known = sorted({_beginning(preset) for preset in self.presets.get(program, ()) if len(preset.words) > 1})
        if known:
            hint = f"{_HINTS.get(program, '')} Allowed after `{program}`: {', '.join(known)}.".strip()
            return Refused(reason=f"No rule allows this use of `{program}`.", rule="default deny", hint=hint)
        return Refused(
            reason=f"No rule allows the program `{program}`.",
            rule="default deny",
            hint=_HINTS.get(program, f"Allowed: {', '.join(sorted(self.presets))}."),
        )


def _beginning(preset: Preset) -> str:
    """The sub-command, or the module for `python -m`."""
    words = [word for word in preset.words[1:] if not word.startswith("--")]
    return " ".join(words[:2] if words[0] == "-m" else words[:1])


def _program(word: str) -> str:
    """What a program is, whichever path it is called by."""
    name = word.rpartition("/")[2]
    return _WRAPPERS.get(name, name)


def _out(words: Sequence[str], rule: str) -> Refused | None:
    word = next((word for word in words if leads_out(word)), None)
    return None if word is None else Refused(reason=f"`{word[:100]}` leads out of the repository.", rule=rule)


def _plain(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith("-")]


def _holds(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether the wanted words are there in their order, the first of them first."""
    left = iter(words)
    return list(words[:1]) == list(wanted[:1]) and all(word in left for word in wanted)


def _has(argv: Sequence[str], option: str, reading: _Reading | None) -> bool:
    """Whether an option is there. Where no preset has read the command, also what only looks like it: with a glued
    value, or a short one among others."""
    if reading is not None:
        return option in argv or option in reading.used
    is_short = len(option) == 2
    return any(
        word.partition("=")[0] == option or (is_short and re.match(r"-[^-]", word) is not None and option[1] in word)
        for word in argv
    )


def rule_problem(text: str) -> str | None:
    """What is wrong with a rule of a repository's config, or None. A rule is words; `*` as the last one stands for
    any further words, but for those that the program's preset refuses."""
    rule = _rule(text)
    return rule if isinstance(rule, str) else None


def _checked(text: str) -> _Rule:
    rule = _rule(text)
    if isinstance(rule, str):
        raise UserError(f"The rule {text[:100]!r} can't be used: {rule}.")
    return rule


def _rule(text: str) -> _Rule | str:
    head = text.strip(" ")
    is_open = head == "*" or head.endswith(" *")
    head = head[:-1].strip(" ") if is_open else head
    if is_open and not head:
        return "a lone `*` would stand for every command; name the program"
    found = grammar.split(head)
    if isinstance(found, NotWords):
        return "`*` may only be the last word" if "`*`" in found.reason else found.reason
    if _ASSIGNMENT.match(found[0]):
        return "a rule begins with the program, not with a variable"
    return _Rule(text=text, words=found, is_open=is_open)


def _refused(found: NotWords) -> Refused:
    hint = _sentence(found.hint) if found.hint else None
    return Refused(reason=_sentence(found.reason), rule="words", hint=hint)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


class _Reading:
    """The words after a preset's beginning, read the way the program will, up to the first that it may not have. The
    first `named` of them stand in a repository's rule, and are let through as they are."""

    def __init__(self, preset: Preset, words: Sequence[str], *, named: int | None = None) -> None:
        self.preset = preset
        self.rest: list[str] = []
        self.used: set[str] = set()
        self._problem: str | None = None
        self._hint: str | None = None
        self._is_by_rule = named is not None
        self._own = _plain(words[: named or 0])
        self._is_past_dashes = "--" in words[: named or 0]
        place = named or 0
        while place < len(words) and self._problem is None:
            place += self._take(words[place], words[place + 1] if place + 1 < len(words) else None)

    def refusal(self) -> Refused | None:
        """Why the preset does not allow these words."""
        problem = self._problem or self._rest_problem()
        if problem is None and self.preset.needs and not self._is_by_rule and not self.preset.needs & self.used:
            problem = f"It needs {' or '.join(f'`{name}`' for name in sorted(self.preset.needs))} here."
        if problem is None:
            return None
        name = self.preset.name
        return Refused(reason=f"`{name}`: {problem}", rule=f"preset {name}", hint=self._hint)

    def _rest_problem(self) -> str | None:
        """A rule's own words may be among those that the preset judges (`sed -n 1p *`), or ones that it does not know
        (`make SHELL=x *`)."""
        problem = self.preset.rest(self.rest, self.used)
        return self.preset.rest([*self._own, *self.rest], self.used) if problem and self._own else problem

    def _take(self, word: str, following: str | None) -> int:
        """Reads a word, and the one after it where that is its value; says how many these were."""
        if self.preset.reads_at_files and (found := _at_file(word, following)):
            self._problem = f"`{found[:100]}` would be read as a file of further options."
            return 1
        if word == "--" and not self._is_past_dashes:
            self._is_past_dashes = True
            return 1
        is_scripts = self._is_past_dashes and self._is_by_rule and self.preset.starts_script
        if not word.startswith("-") or word == "-" or is_scripts:
            self.rest.append(word)
            return 1
        if re.fullmatch(r"-\d{1,9}", word) and "-#" in self._options:
            return 1
        style = self.preset.style
        if word.startswith("--"):
            return self._long(word[1:] if style == "go" else word, following)
        if style == "clusters" or (style == "apart" and self._is_all_flags(word)):
            return self._cluster(word, following)
        return self._long(word, following)

    @property
    def _options(self) -> Mapping[str, Option]:
        return self.preset.after if self._is_past_dashes else self.preset.options

    def _is_all_flags(self, word: str) -> bool:
        return all((option := self._options.get(f"-{letter}")) and not option.takes_value for letter in word[1:])

    def _long(self, word: str, following: str | None) -> int:
        name, equals, value = word.partition("=")
        option = self._options.get(name)
        if option is None:
            return self._unknown(f"`{name[:100]}`")
        return self._value(name, option, value if equals else None, following)

    def _cluster(self, word: str, following: str | None) -> int:
        """`-xvk name`: flags, of which the last may have a value."""
        for place in range(1, len(word)):
            name = f"-{word[place]}"
            option = self._options.get(name)
            if option is None:
                return self._unknown(f"`{name}` in `{word[:100]}`" if len(word) > 2 else f"`{name}`")
            if option.takes_value:
                return self._value(name, option, word[place + 1 :] or None, following)
            self.used.add(name)
        return 1

    def _value(self, name: str, option: Option, glued: str | None, following: str | None) -> int:
        self.used.add(name)
        if not option.takes_value:
            if glued is not None:
                self._problem = f"`{name}` takes no value."
            return 1
        if option.glued_only and glued is None:
            return 1
        value, style = following if glued is None else glued, self.preset.style
        if value is None:
            self._problem = f"`{name}` lacks its value."
        elif glued is None and value.startswith("-") and not _NUMBER.fullmatch(value):
            self._problem = f"The value of `{name}` begins with `-`."
            if style != "single":
                equals = "=" if len(name) > 2 or style == "apart" else ""
                self._hint = f"Glue the value to the option: `{name}{equals}VALUE`."
        elif option.allowed is not None and not option.allowed.fullmatch(value):
            self._problem = f"`{name}` may not be `{value[:100]}`."
        elif option.is_path and leads_out(value):
            self._problem = f"`{value[:100]}` leads out of the repository."
        return 1 if glued is not None else 2

    def _unknown(self, option: str) -> int:
        known = " ".join(sorted(self._options))
        self._problem = f"The option {option} is not among those allowed here."
        self._hint = f"Allowed: {known}." if known else "No options are allowed here."
        return 1


def _at_file(*words: str | None) -> str | None:
    return next((word for word in words if word and word.startswith("@")), None)
