"""No attack leaves its mark; and each does as soon as the wall that stops it is taken down, in the test alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import pytest

from tests.attacks import STORIES, breakout, code, gate, limits, submodules, tools, words
from tests.attacks.attack import Attack
from tests.attacks.attacks import ATTACKS

Record = Callable[[str, object], None]
Try = Callable[[bool], Awaitable[set[str]]]
LONG = ("breakout", "words", "limits")
"""What these do with their walls down takes too long for `make test`."""


@pytest.fixture
def try_all(story: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Try:
    """Tries a story's attacks with its walls, or without; gives the names of those that have worked."""
    if story == "words":
        return lambda held: words.attack(tmp_path, monkeypatch, capfd, held=held)
    module = {
        "tools": tools,
        "code": code,
        "gate": gate,
        "submodules": submodules,
        "breakout": breakout,
        "limits": limits,
    }[story]
    return lambda held: module.attack(tmp_path, monkeypatch, held=held)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("story", STORIES)
async def test_no_attack_leaves_its_mark(story: str, try_all: Try, record_property: Record) -> None:
    seen = await try_all(True)
    assert not seen, f"these attacks have worked:\n{_told(seen)}"
    record_property("says", f"attacks, {story}: {len(_of(story))} tried, none has left its mark")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "story", [pytest.param(story, marks=pytest.mark.slow) if story in LONG else story for story in STORIES]
)
async def test_each_attack_works_once_its_wall_is_down(story: str, try_all: Try, record_property: Record) -> None:
    seen = await try_all(False)
    controlled = {attack.id for attack in _of(story) if not attack.uncontrolled}
    assert controlled <= seen, f"these would not have been noticed:\n{_told(controlled - seen)}"
    record_property("says", f"attacks, {story}: {len(controlled)} have left their marks with the walls down")


def test_every_attack_has_a_name_of_its_own_a_story_and_a_control_or_a_reason_for_none() -> None:
    assert [name for name, times in Counter(attack.id for attack in ATTACKS).items() if times > 1] == []
    assert {attack.story for attack in ATTACKS} == set(STORIES)
    for attack in ATTACKS:
        assert attack.wall
        assert attack.what
        assert (attack.call is None) == (attack.story != "tools")
        assert attack.call is None or bool(attack.sign) != bool(attack.says)
    assert len([attack for attack in ATTACKS if attack.uncontrolled]) <= 5


def _of(story: str) -> list[Attack]:
    return [attack for attack in ATTACKS if attack.story == story]


def _told(names: Iterable[str]) -> str:
    by_name = {attack.id: attack for attack in ATTACKS}
    rows = [by_name.get(name) for name in sorted(names)]
    return "\n".join(f"{row.id} | {row.kind} | wall: {row.wall} | {row.what}" for row in rows if row) + str(
        sorted(set(names) - by_name.keys()) or ""
    )
