"""What an attack is, and how the tables write one down.

A mark is only ever left when the attack has worked: `{mark}` is a file that must not appear, `{trap}` a program of
the repository that makes it when somebody starts it, `{word}` a word which the recorders (`bin/curl` and the like,
for programs that the image lacks) take for an order to make it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.stories.harness import call

ACCOUNTS = "root:x:0:0"
"""What a file outside of the repository holds and none inside."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """`kind` is the family it belongs to, `wall` what has to stop it, `story` the module where
    it is tried, once with its walls and once without. `sign`
    is a line of shell in the repository's folder that is true once it has worked; `says` is what only the thing it
    was after can hold. `uncontrolled` says why it can't be shown to work without its wall, where it can't."""

    id: str
    kind: str
    wall: str
    story: str
    what: str
    call: Mapping[str, Any] | None = None
    sign: str = ""
    says: str = ""
    uncontrolled: str = ""


def _filled(text: str, name: str) -> str:
    fillings = {"mark": f"marks/{name}", "trap": f"./traps/{name}", "word": f"mark-{name}", "id": name}
    for key, value in fillings.items():
        text = text.replace("{" + key + "}", value)
    return text


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    """`name: what` or `name: what => sign`, a line each."""
    for line in text.strip("\n").split("\n"):
        name, _, rest = line.partition(": ")
        what, _, sign = rest.partition(" => ")
        yield name, _filled(what, name), _filled(sign, name)


def commands(kind: str, text: str, *, says: str = "", uncontrolled: str = "") -> Iterator[Attack]:
    """Command lines."""
    for name, line, sign in _lines(text):
        yield Attack(
            id=name,
            kind=kind,
            wall="policy",
            story="tools",
            what=line[:100],
            call=call("run_command", command=line.replace("⏎", "\n")),
            sign="" if says else sign or f"test -e marks/{name}",
            says=says,
            uncontrolled=uncontrolled,
        )


def files(kind: str, text: str) -> Iterator[Attack]:
    """Paths of files to be written. `\\0` and `\\\\` stand for NUL and a backslash."""
    for name, line, sign in _lines(text):
        path = line.replace("\\0", "\0").replace("\\u200c", "\u200c")
        yield Attack(
            id=name,
            kind=kind,
            wall="paths",
            story="tools",
            what=f"write_file {line}",
            call=call("write_file", path=path, contents=f"# {name}\n"),
            sign=sign or f"grep -qs '{name}' '{path}'",
        )


def of_call(
    kind: str, name: str, tool: str, *, sign: str = "", says: str = "", wall: str = "paths", **words: str
) -> Attack:
    """One call of another tool."""
    filled = {key: _filled(value, name) for key, value in words.items()}
    return Attack(
        id=name,
        kind=kind,
        wall=wall,
        story="tools",
        what=f"{tool} {' '.join(filled.values())}",
        call=call(tool, **filled),
        sign=_filled(sign, name),
        says=says,
    )


def others(story: str, kind: str, wall: str, text: str) -> Iterator[Attack]:
    """What is done in a story's own way."""
    for name, what, _ in _lines(text):
        yield Attack(id=name, kind=kind, wall=wall, story=story, what=what)
