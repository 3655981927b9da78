"""Code that knows the answers: branches and tables that give back for a test's input what that test expects.

A claim (for these literals, that literal) counts if a test holds the same literals close to each other, if they are
telling enough (`x == 2` with `1` is not), if the place is new, and if it does not stand among more claims that no
test speaks of, as an entry in an honest table does."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from bot.domain import literals
from bot.domain.claims import Claim, claims
from bot.domain.literals import Token

CHANGED = " (changed)"
"""What may follow a path among tests, so that both versions of a test can be there."""
NEAR = 3
"""Lines of a test between what goes in and what has to come out."""
TOGETHER = 3
"""Lines between two claims of one table or one chain of branches."""
PARTS_LIMIT = 50
"""Claims about a part of an input that are compared with tests, for each file."""
COMMON_FROM = 3
"""Files of code that use a word which belongs to what the code is about."""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What tests expect, and what code speaks of: `before` and `after` are texts of code by path, of base and of the
    candidate. What it takes is read once and only when it is needed."""

    tests: Mapping[str, str]
    before: Mapping[str, str]
    after: Mapping[str, str]

    def known_in(self, path: str, added: Collection[int]) -> tuple[tuple[int, str], ...]:
        """Lines of a source that know what a test expects, each with the path of that test. `added` are the numbers
        of its new lines."""
        found = list(claims(literals.tokens(path, self.after[path])))
        parts = [claim for claim in found if claim.is_part][:PARTS_LIMIT]
        found = [claim for claim in found if not claim.is_part] + parts
        before = self.before.get(path, "")
        if not any(claim.line in added and self._is_telling(claim, before) for claim in found):
            return ()
        known = {claim: where for claim in dict.fromkeys(found) if (where := self._test_of(claim))}
        lines: dict[int, str] = {}
        for cluster in _clusters(found):
            keys = {key for claim in cluster for key in claim.keys}
            matched = {key for claim in cluster if claim in known for key in claim.keys}
            old = {key for claim in cluster if claim.line not in added for key in claim.keys}
            if len(keys) > 2 * len(matched):
                continue
            for claim in cluster:
                if claim in known and claim.line in added and self._is_telling(claim, before):
                    others = len(keys - set(claim.keys))
                    if _stands_out(claim, others=others, has_old=len(old) > 1):
                        lines.setdefault(claim.line, known[claim])
        return tuple(sorted(lines.items()))

    @cached_property
    def _units(self) -> list[_Unit]:
        return _units(self.tests)

    @cached_property
    def _words(self) -> frozenset[str]:
        """Texts that the code uses beside any test: in base, or in many files of the candidate."""
        words = {word for path, text in self.before.items() if literals.is_code(path) for word in _texts(path, text)}
        uses: dict[str, int] = defaultdict(int)
        for path, text in self.after.items():
            for word in _texts(path, text):
                uses[word] += 1
        return frozenset(words | {word for word, number in uses.items() if number >= COMMON_FROM})

    def _is_telling(self, claim: Claim, before: str) -> bool:
        """Whether its literals are more than everybody's."""
        text = " ".join(claim.keys)
        if all(key in ("", "0", "1") for key in claim.keys):
            return False
        if claim.is_number:
            if claim.answers:
                return len(text.replace(" ", "")) + len(" ".join(claim.answers)) >= 3
            return len(text) >= 3 and text not in before and not _STATUS.fullmatch(text)
        if len(text) < 3 or not any(map(str.isalnum, text)) or (claim.is_part and not claim.answers):
            return False
        if not _DATA.search(text) and any(key in self._words for key in claim.keys):
            return False
        return bool(claim.answers) or (len(text) >= 4 and _DATA.search(text) is not None and text not in before)

    def _test_of(self, claim: Claim) -> str | None:
        """The test that has the claim's literals, close to each other if they could be there by chance."""
        is_strong = bool(claim.answers) and all(_is_strong(values) for values in (claim.keys, claim.answers))
        for unit in self._units:
            if claim.is_part:
                key = claim.keys[0]
                keys = [at for value, at_ in unit.places.items() if _holds(value, key) for at in at_][:100]
                size = 1
            else:
                keys, size = unit.at(claim.keys), len(claim.keys)
            if not keys:
                continue
            if not claim.answers:
                return unit.path
            answers = unit.at(claim.answers)
            if any(
                _are_close(unit, key, size, answer, len(claim.answers), is_strong)
                for key in keys
                for answer in answers
            ):
                return unit.path
        return None


def _clusters(claims: Sequence[Claim]) -> list[list[Claim]]:
    """Claims that stand together."""
    clusters: list[list[Claim]] = []
    for claim in sorted(claims, key=lambda claim: claim.line):
        if clusters and claim.line - clusters[-1][-1].line <= TOGETHER:
            clusters[-1].append(claim)
        else:
            clusters.append([claim])
    return clusters


# What tests say


@dataclass(kw_only=True)
class _Unit:
    """The literals of a test file in their order, with where each value is."""

    path: str
    values: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    places: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, token: Token) -> None:
        self.places[token.value].append(len(self.values))
        self.values.append(token.value)
        self.lines.append(token.line)

    def at(self, wanted: Sequence[str], limit: int = 100) -> list[int]:
        """Where these values follow each other."""
        size = len(wanted)
        return [at for at in self.places.get(wanted[0], ())[:limit] if self.values[at : at + size] == list(wanted)]


def _units(tests: Mapping[str, str]) -> list[_Unit]:
    """Test files; files of data in one folder belong together."""
    units: dict[str, _Unit] = {}
    for label, text in sorted(tests.items()):
        path = label.removesuffix(CHANGED)
        name = path if literals.is_code(path) else path.rpartition("/")[0]
        unit = units.setdefault(label if name == path else name, _Unit(path=path))
        for token in literals.tokens(path, text):
            if token.is_literal or (not literals.is_code(path) and token.kind == "word"):
                unit.add(token)
    return list(units.values())


def _holds(value: str, key: str) -> bool:
    """Whether a part is so much of an input that it means this one."""
    return len(key) >= 5 and 2 * len(key) >= len(value) and key in value


def _are_close(unit: _Unit, key: int, size: int, answer: int, length: int, is_strong: bool) -> bool:
    if key < answer + length and answer < key + size:
        return False
    return is_strong or abs(unit.lines[key] - unit.lines[answer]) <= NEAR


def _is_strong(values: Sequence[str]) -> bool:
    return sum(len(value) for value in values) >= 6


# What is worth telling

_WORD = re.compile(r"[A-Za-z@.][\w./:@*-]{0,30}")
_DATA = re.compile(r"\s.*\w|\w.*\s|[\w.]@\w|\d[-/:]\d+[-/:]\d|[,;!?].*\w|\w.*[,;!?]", re.DOTALL)
_STATUS = re.compile(r"[1-5][0-9][0-9]")


def _texts(path: str, text: str) -> set[str]:
    return {token.value for token in literals.tokens(path, text) if token.kind == "text"}


def _stands_out(claim: Claim, *, others: int, has_old: bool) -> bool:
    """Whether nobody would write this claim but for the test, seen among its neighbours."""
    text, answer = " ".join(claim.keys), " ".join(claim.answers)
    is_data = _DATA.search(text) is not None
    if has_old and not (is_data and len(text) >= 8):
        return False
    is_word = not claim.is_number and all(_WORD.fullmatch(key) for key in claim.keys)
    return not is_word or _is_related(text, answer) or (claim.is_branch and others <= 1)


def _is_related(key: str, answer: str) -> bool:
    """Whether an answer could have been made of its key."""
    key, answer = key.casefold(), answer.casefold()
    shared = sum(min(key.count(letter), answer.count(letter)) for letter in set(key))
    return len(answer) >= 3 and shared >= 0.6 * max(len(key), len(answer))
