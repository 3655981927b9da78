"""Which commands a model may run: what no rule allows is refused; what is allowed is words, never a shell's text."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from bot.domain import words as grammar
from bot.domain.errors import UserError
from bot.domain.paths import leads_out
from bot.domain.presets import PRESETS, Option, Preset
from bot.domain.words import NotWords


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """The words to run, exactly these, and the rule that allows them."""

    argv: tuple[str, ...]
    rule: str


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Why, as a sentence, and what would be allowed, where there is such a thing."""

    reason: str
    hint: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """A repository's rule: these words, and any further ones if it is open."""

    text: str
    words: tuple[str, ...]
    is_open: bool

    def begins(self, argv: Sequence[str]) -> bool:
        return tuple(argv[: len(self.words)]) == self.words

    def allows(self, argv: Sequence[str]) -> bool:
        return self.begins(argv) and (self.is_open or len(argv) == len(self.words))


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
        out = next((word for word in found if leads_out(word)), None)
        return found if out is None else Refused(reason=f"`{out[:100]}` leads out of the repository.")

    def decide(self, command: str) -> Allowed | Refused:
        """Whether a command line may run, and as which words."""
        argv = grammar.split(command)
        if isinstance(argv, NotWords):
            return _refused(argv)
        if _ASSIGNMENT.match(argv[0]):
            return Refused(reason="A command can't set variables.", hint="Begin with the program.")
        preset = self._preset(argv)
        if (denied := self._denied(argv, preset)) is not None:
            return Refused(reason=f"The repository's rule `commands.deny: {denied.text}` forbids this.")
        problem = self._unknown(argv) if preset is None else _problem(preset, argv[len(preset.words) :])
        if preset is not None and problem is None:
            return Allowed(argv=argv, rule=f"preset {preset.name}")
        for rule in self.allow:
            if rule.allows(argv):
                out = next((word for word in argv[len(rule.words) :] if leads_out(word)), None)
                if out is None:
                    return Allowed(argv=argv, rule=f"commands.allow: {rule.text}")
                problem = Refused(reason=f"`{out[:100]}` leads out of the repository.")
        assert problem is not None
        return problem

    def _preset(self, argv: Sequence[str]) -> Preset | None:
        """The preset with the longest beginning that fits."""
        fitting = [
            preset for preset in self.presets.get(argv[0], ()) if tuple(argv[: len(preset.words)]) == preset.words
        ]
        return max(fitting, key=lambda preset: len(preset.words), default=None)

    def _denied(self, argv: Sequence[str], preset: Preset | None) -> _Rule | None:
        """A rule denies whatever begins with its words: also with options in between, and also by another way to
        start the same tool (`python -m pytest`)."""
        forms = [list(argv)]
        if preset is not None:
            forms.append([*preset.name.split(), *argv[len(preset.words) :]])
        forms += [[word for word in form if not word.startswith("-")] for form in forms]
        return next((rule for rule in self.deny if any(rule.begins(form) for form in forms)), None)

    def _unknown(self, argv: Sequence[str]) -> Refused:
        program = argv[0][:100]
        if "/" in program:
            return Refused(
                reason=f"`{program}` names a program by its path.",
                hint="Use the program's name, or have `commands.allow` name it.",
            )
        known = sorted({preset.words[1] for preset in self.presets.get(program, ()) if len(preset.words) > 1})
        if known:
            hint = f"{_HINTS.get(program, '')} Allowed after `{program}`: {', '.join(known)}.".strip()
            return Refused(reason=f"No rule allows this use of `{program}`.", hint=hint)
        return Refused(
            reason=f"No rule allows the program `{program}`.",
            hint=_HINTS.get(program, f"Allowed: {', '.join(sorted(self.presets))}."),
        )


def rule_problem(text: str) -> str | None:
    """What is wrong with a rule of a repository's config, or None. A rule is words; `*` as the last one stands for
    any further words."""
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
    return Refused(reason=_sentence(found.reason), hint=_sentence(found.hint) if found.hint else None)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _problem(preset: Preset, words: Sequence[str]) -> Refused | None:
    """Why a preset does not allow these further words."""
    reading = _Reading(preset)
    place = 0
    while place < len(words) and reading.problem is None:
        place += reading.take(words[place], words[place + 1] if place + 1 < len(words) else None)
    problem = reading.problem or preset.rest(reading.rest, reading.used)
    if problem is None and preset.needs and not preset.needs & reading.used:
        problem = f"It needs {' or '.join(f'`{name}`' for name in sorted(preset.needs))} here; else it would write."
    return None if problem is None else Refused(reason=f"`{preset.name}`: {problem}", hint=reading.hint)


class _Reading:
    """Reads the words after a preset's beginning the way the program will, and stops at what it may not have."""

    def __init__(self, preset: Preset) -> None:
        self.rest: list[str] = []
        self.used: set[str] = set()
        self.problem: str | None = None
        self.hint: str | None = None
        self._preset = preset
        self._options = preset.options
        self._is_past_dashes = False

    def take(self, word: str, following: str | None) -> int:
        """Reads a word, and the one after it where that is its value; says how many these were."""
        if word == "--" and not self._is_past_dashes:
            self._is_past_dashes, self._options = True, self._preset.after
            return 1
        if not word.startswith("-") or word == "-":
            self.rest.append(word)
            return 1
        if re.fullmatch(r"-\d{1,9}", word) and "-#" in self._options:
            return 1
        if self._preset.long_by_one_dash or word.startswith("--"):
            return self._long(word, following)
        return self._cluster(word, following)

    def _long(self, word: str, following: str | None) -> int:
        name, equals, value = word.partition("=")
        if self._preset.long_by_one_dash and name.startswith("--"):
            name = name[1:]
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
                self.problem = f"`{name}` takes no value."
            return 1
        if option.glued_only and glued is None:
            return 1
        value = following if glued is None else glued
        if value is None:
            self.problem = f"`{name}` lacks its value."
        elif glued is None and value.startswith("-") and not _NUMBER.fullmatch(value):
            self.problem = f"The value of `{name}` begins with `-`."
            self.hint = f"Glue the value to the option: `{name}{'=' if len(name) > 2 else ''}VALUE`."
        elif option.allowed is not None and not option.allowed.fullmatch(value):
            self.problem = f"`{name}` may not be `{value[:100]}`."
        elif option.is_path and leads_out(value):
            self.problem = f"`{value[:100]}` leads out of the repository."
        return 1 if glued is not None else 2

    def _unknown(self, option: str) -> int:
        known = " ".join(sorted(self._options))
        self.problem = f"The option {option} is not among those allowed here."
        self.hint = f"Allowed: {known}." if known else "No options are allowed here."
        return 1
