"""Which commands the agent may run: default deny, decided on parsed words, each answer with its reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bot.domain import words
from bot.domain.presets import PRESETS, Preset
from bot.domain.words import NotWords


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """May run, as exactly these words; `rule` says which one allowed it."""

    argv: tuple[str, ...]
    rule: str


@dataclass(frozen=True, kw_only=True)
class Refused:
    """May not run; `hint` is the form that would be fine, where there is one."""

    reason: str
    hint: str | None = None


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The presets, and a repository's own rules beside them. A denied command is denied whatever allows it."""

    allow: tuple[tuple[str, ...], ...] = ()
    deny: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, *, allow: Sequence[str] = (), deny: Sequence[str] = ()) -> Policy:
        """From rules that `rule_problem` has nothing to say about."""
        return cls(
            allow=tuple(tuple(rule.split()) for rule in allow), deny=tuple(tuple(rule.split()) for rule in deny)
        )

    def words(self, line: str) -> tuple[str, ...] | Refused:
        """A line as plain words, each a harmless argument."""
        found = words.split(line)
        if isinstance(found, NotWords):
            return Refused(reason=f"{found.reason}.", hint=_hint(found.hint))
        for word in found:
            if (problem := _leaves(word)) is not None:
                return Refused(reason=problem)
        return found

    def decide(self, command: str) -> Allowed | Refused:
        """Whether a command line may run. Takes any text, and time in proportion to its (bounded) length."""
        argv = self.words(command)
        if isinstance(argv, Refused):
            return argv
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=.*", argv[0], re.DOTALL):
            return Refused(reason="A command may not begin with an assignment.", hint=_hint("leave it out"))
        for rule in self.deny:
            if _fits(rule, argv):
                return Refused(reason=f"`commands.deny` names `{' '.join(rule)}`.")
        for rule in self.allow:
            if _fits(rule, argv):
                return Allowed(argv=argv, rule=f"commands.allow: {' '.join(rule)}")
        return _by_preset(argv)


def rule_problem(rule: str) -> str | None:
    """What is wrong with a repository's rule, if anything. A rule is words; `*` at its end is any further words."""
    parsed = rule.split()
    if not parsed:
        return "the rule is empty"
    if parsed[0] == "*":
        return "`*` alone would allow everything; name the program"
    if "*" in parsed[:-1]:
        return "`*` may only be the last word"
    if isinstance(words.split(" ".join(parsed[:-1] if parsed[-1] == "*" else parsed)), NotWords):
        return "the rule holds something a shell would act on; a rule is plain words"
    return None


def _fits(rule: tuple[str, ...], argv: tuple[str, ...]) -> bool:
    if rule[-1] == "*":
        return argv[: len(rule) - 1] == rule[:-1]
    return argv == rule


def _by_preset(argv: tuple[str, ...]) -> Allowed | Refused:
    if argv[0] == "sed":
        return _sed(argv)
    fitting = [preset for preset in PRESETS if argv[: len(preset.words)] == preset.words]
    if not fitting:
        return _unknown(argv)
    refused: Refused | None = None
    for preset in sorted(fitting, key=lambda one: len(one.words), reverse=True):
        problem = _problem(preset, argv[len(preset.words) :])
        if problem is None:
            return Allowed(argv=argv, rule=f"preset: {' '.join(preset.words)}")
        refused = refused or Refused(reason=problem)
    assert refused is not None
    return refused


def _unknown(argv: tuple[str, ...]) -> Refused:
    program = argv[0]
    known = sorted({" ".join(p.words) for p in PRESETS if p.words[0] == program})
    if known:
        return Refused(reason=f"`{' '.join(argv[:2])[:80]}` is not allowed.", hint=f"Allowed: {', '.join(known)}.")
    return Refused(
        reason=f"`{program[:80]}` is not on the list of allowed programs.",
        hint="Tests: run_tests. Files: read_file, write_file, edit_file.",
    )


def _sed(argv: tuple[str, ...]) -> Allowed | Refused:
    """The one harmless shape; sed's scripts can run programs and write files."""
    prints = len(argv) >= 4 and argv[1] == "-n" and re.fullmatch(r"\d{1,7}(?:,(?:\d{1,7}|\$))?p", argv[2])
    if prints and not any(word.startswith("-") for word in argv[3:]):
        return Allowed(argv=argv, rule="preset: sed -n")
    return Refused(
        reason="`sed` may only print lines: sed -n START,ENDp FILE.", hint="Use edit_file to change a file."
    )


def _problem(preset: Preset, rest: tuple[str, ...]) -> str | None:
    """Why these words may not follow the preset's own, or None."""
    name = " ".join(preset.words)
    place = 0
    only_args = False
    while place < len(rest):
        word = rest[place]
        place += 1
        if word == "--" and not only_args:
            only_args = True
        elif not only_args and word.startswith("-") and word != "-":
            takes = _option(preset, word)
            if takes is None:
                return f"`{name}` may not have the option `{word[:60]}`."
            place += takes
            if place > len(rest):
                return f"The option `{word[:60]}` needs a value."
        elif preset.args == "none":
            return f"`{name}` takes no further words."
        elif preset.args == "names" and (not re.fullmatch(r"[A-Za-z0-9][\w.:@-]*", word) or "=" in word):
            return f"`{name}` takes names only, not `{word[:60]}`."
        elif only_args and preset.args != "any" and word.startswith("-"):
            return f"`{name}` may not have `{word[:60]}` after `--`."
    return None


def _option(preset: Preset, word: str) -> int | None:
    """How many words after this option belong to it; None where it is not allowed. A long option stands in full, by
    itself or as `--name=value`; short flags may be clustered; a short option's value may be glued to it."""
    options = preset.options
    if word in options:
        return 0
    if f"{word}=" in options:
        return 1
    head, equals, _ = word.partition("=")
    if equals and f"{head}=" in options:
        return 0
    if word.startswith("--"):
        return None
    if preset.words[0] in _SINGLE_DASH:
        return None  # these write long options with one dash, so nothing is clustered or glued
    if len(word) > 2 and f"{word[:2]}=" in options:
        return 0
    flags = [f"-{char}" for char in word[1:]]
    if all(flag in options for flag in flags):
        return 0
    if all(flag in options for flag in flags[:-1]) and f"{flags[-1]}=" in options:
        return 1
    return 0 if preset.words[0] in ("head", "tail") and re.fullmatch(r"-\d{1,6}", word) else None


_SINGLE_DASH = ("find", "go", "mvn")


def _leaves(word: str) -> str | None:
    """Why a word, read as a path in any of the ways programs do, would lead out of the repository."""
    for part in re.split(r"[=:,]", word):
        if part.startswith("~"):
            return f"`{word[:60]}` names a home folder; paths are relative to the repository."
        if part.startswith("/") and not re.match(r"/workspace/repo(?:/|$)", part) and not _is_pattern(part):
            return f"`{word[:60]}` is outside of the repository; paths are relative to its top folder."
        if ".." in part.split("/"):
            return f"`{word[:60]}` leads out of the repository."
    glued = re.match(r"-[A-Za-z](/.*)", word)
    if glued and not glued[1].startswith("/workspace/repo"):
        return f"`{word[:60]}` is outside of the repository; paths are relative to its top folder."
    return None


def _is_pattern(part: str) -> bool:
    """`/regex/`-like words are text to search for: no file is named with these characters."""
    return bool(re.search(r"[\\^$*+?()|\[\]{}]", part))


def _hint(text: str | None) -> str | None:
    return None if text is None else f"{text[0].upper()}{text[1:]}."
