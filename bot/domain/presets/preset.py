"""How a line of the tables of presets is written, and what it means."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from bot.domain.words import leads_out

Rest = Callable[[Sequence[str], Set[str]], str | None]
"""Why a program may not have these words (those that are no options), given the options that are there; None if it
may."""

Style = Literal["clusters", "apart", "single", "go"]
"""How a program reads its options, beside `--name` and `--name=value`:

clusters  `-xvk name` and `-kname`: most programs
apart     `-xv`, `-t name` and `-t=name`; in `-tname` each letter is an option: most of JavaScript's tools
single    `-name value`: find, mvn, dotnet
go        the same, and `--name` is `-name`
"""


@dataclass(frozen=True, kw_only=True)
class Option:
    """What may follow an option: a value, only glued to it, only inside the repository, only what is allowed."""

    takes_value: bool = False
    glued_only: bool = False
    is_path: bool = False
    allowed: re.Pattern[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Preset:
    """One way to begin a command, and what may follow. `name` is the same for all ways to start one tool."""

    ecosystem: str | None
    name: str
    words: tuple[str, ...]
    options: Mapping[str, Option]
    after: Mapping[str, Option]
    """Options after `--`, which are another program's."""
    rest: Rest
    needs: frozenset[str]
    """One of these options has to be there: without it the program would write."""
    style: Style
    reads_at_files: bool
    """A word `@FILE`, wherever it stands, is replaced by what the file holds."""
    starts_script: bool
    """What follows `--` is for a script of the repository, whose options nobody knows here."""


def options(spec: str) -> dict[str, Option]:
    """Options as the tables write them."""
    return dict(_option(item) for item in spec.split())


def _option(item: str) -> tuple[str, Option]:
    name, equals, value = item.partition("=")
    if not equals:
        return name, Option()
    pattern = value.removeprefix("path:")
    allowed = re.compile(pattern, re.DOTALL) if pattern not in ("", "*", "?") else None
    is_path = value in ("", "?") or pattern != value
    return name, Option(takes_value=True, glued_only=value == "?", is_path=is_path, allowed=allowed)


def nothing(words: Sequence[str], used: Set[str]) -> str | None:
    return f"Nothing but options may follow, not `{words[0][:100]}`." if words else None


def paths(words: Sequence[str], used: Set[str]) -> str | None:
    out = next((word for word in words if leads_out(word)), None)
    return None if out is None else f"`{out[:100]}` leads out of the repository."


def pattern(words: Sequence[str], used: Set[str]) -> str | None:
    """A pattern, then paths; no pattern where an option gave it or none is asked for."""
    given = used & {"-e", "--regexp", "--files", "--type-list"}
    return paths(words if given else words[1:], used)


def names(allowed: str) -> Rest:
    """Words of which each matches."""

    def check(words: Sequence[str], used: Set[str]) -> str | None:
        wrong = next((word for word in words if not re.fullmatch(allowed, word)), None)
        return f"`{wrong[:100]}` may not stand there." if wrong is not None else paths(words, used)

    return check


def first(allowed: str, meaning: str, unless: Set[str] = frozenset()) -> Rest:
    """One word that matches, then paths; only paths where one of the options `unless` is there."""

    def check(words: Sequence[str], used: Set[str]) -> str | None:
        if used & unless:
            return paths(words, used)
        if not words or not re.fullmatch(allowed, words[0]):
            return f"The first word has to be {meaning}."
        return paths(words[1:], used)

    return check


def presets(
    ecosystem: str | None,
    lines: str,
    spec: str = "",
    rest: Rest = paths,
    *,
    via: Sequence[str] = ("",),
    after: str = "",
    needs: str = "",
    style: Style = "clusters",
    reads_at_files: bool = False,
    starts_script: bool = False,
) -> Iterator[Preset]:
    """A preset for each of these beginnings and each way to come to it; the first way makes the name."""
    main, *_ = via
    for line in lines.split(", "):
        for prefix in via:
            yield Preset(
                ecosystem=ecosystem,
                name=f"{main} {line}".strip(),
                words=(*prefix.split(), *line.split()),
                options=options(spec),
                after=options(after),
                rest=rest,
                needs=frozenset(needs.split()),
                style=style,
                reads_at_files=reads_at_files,
                starts_script=starts_script,
            )
