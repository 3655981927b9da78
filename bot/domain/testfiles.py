"""A patch in two: what it does to the code, and what it does to the tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bot.domain import deciders, inline_tests, paths
from bot.domain.config import Check
from bot.domain.flags import Flag
from bot.domain.gate import shown
from bot.domain.patch import Change, Patch
from bot.domain.tree import TreeEntry

WANTED = 1_000
"""Files of base that `split` looks into."""

_FOLDER = re.compile(
    r"(?:.*/)?(?:tests?|__tests__|__mocks__|__snapshots__|specs?|testdata|test[-_]data|[\w.]+\.tests?|e2e|cypress)/.+"
    r"|t/.+\.t|(?:.*/)?features/(?:.+\.feature|(?:steps|step_definitions|support)/.+)"
)
_NAME = re.compile(
    r"test_.*\.py|.*_tests?\.py|tests\.py"
    r"|.*_test\.go|(?:.*_)?tests?\.rs"
    r"|.*[._-](?:test|spec|cy|e2e)\.[cm]?[jt]sx?|test(?:-.*)?\.[cm]?[jt]sx?"
    r"|.*[._](?:test|spec)\.(?:\w+)|.*_(?:spec|test)\.(?:rb|exs|dart|lua)|test_.*\.rb"
    r"|.*\.(?:snap|feature|bats|t)"
)
_CAMEL = re.compile(
    r"(?:.*(?:Test|Tests|TestCase|TestSuite|Spec|IT)|Tests?[A-Z].*)\.(?:java|kts?|php|cs|fs|scala|groovy|swift|m)"
)
_DOCUMENT = re.compile(r".*\.(?:md|rst|adoc|ya?ml|json)")


def is_test(path: str, globs: Sequence[str] | None = None) -> bool:
    """Whether a file is a test, or a part of what tests need: by its folder or its name. With globs (as in
    `paths.protected`) only those count."""
    if globs is not None:
        return any(paths.matches(path, glob) for glob in globs)
    name = path.rpartition("/")[2]
    if _CAMEL.fullmatch(name) or _FOLDER.fullmatch(path.casefold()):
        return True
    return _NAME.fullmatch(name.casefold()) is not None and not _DOCUMENT.fullmatch(name.casefold())


@dataclass(frozen=True, kw_only=True)
class Split:
    """`old_tests` is the patch without what it does to tests and to files that decide how tests run, so that these
    are as on base; it is the patch itself if it does nothing to either. `new_tests` is what it adds to and changes in
    tests, and nothing else; None if that is nothing. `tests` are the paths of tests that it touches, `reverted` those
    that `old_tests` puts back, in part or as a whole."""

    old_tests: Patch
    new_tests: Patch | None
    flags: tuple[Flag, ...]
    tests: tuple[str, ...]
    reverted: tuple[str, ...]


def needed(patch: Patch, base: Sequence[TreeEntry], checks: Sequence[Check]) -> tuple[TreeEntry, ...]:
    """The files of base whose contents `split` looks into, at most `WANTED`, the most important first."""
    entries = {entry.path: entry for entry in base if entry.type == "blob" and entry.mode != "120000"}
    sources = [path for path in deciders.sources(checks) if path in entries]
    changed = [change.path for change in patch.changes if change.path in entries]
    first = sorted(changed, key=lambda path: (path.endswith(".rs"), is_test(path)))
    return tuple(entries[path] for path in dict.fromkeys([*sources, *first]))[:WANTED]


def split(
    patch: Patch,
    base: Sequence[TreeEntry],
    before: Mapping[str, bytes],
    checks: Sequence[Check],
    globs: Sequence[str] | None,
) -> Split:
    """A patch to `base` in two. `before` has contents of base by path, those of `needed`; a file that it lacks can
    only be put back as a whole. `globs` are those of `verification.tests`."""
    entries = {entry.path: entry for entry in base}
    rules = _Rules(patch=patch, named=deciders.named(checks, before), globs=globs)
    parts = [rules.part(change, entries.get(change.path), before.get(change.path)) for change in patch.changes]
    old_tests = _possible([part.old for part in parts if part.old is not None], entries)
    new_tests = _possible([part.new for part in parts if part.new is not None], entries)
    left = {change.path: change for change in old_tests.changes}
    return Split(
        old_tests=old_tests,
        new_tests=new_tests or None,
        flags=tuple(flag for part in parts for flag in part.flags),
        tests=tuple(change.path for change, part in zip(patch.changes, parts, strict=True) if part.is_test),
        reverted=tuple(change.path for change in patch.changes if left.get(change.path) != change),
    )


@dataclass(frozen=True, kw_only=True)
class _Part:
    """What becomes of one change: in `old_tests` and in `new_tests` (None: nothing of it), and what is said of it."""

    old: Change | None
    new: Change | None = None
    flags: tuple[Flag, ...] = ()
    is_test: bool = False


@dataclass(frozen=True, kw_only=True)
class _Rules:
    """What is needed to know of each change what it is."""

    patch: Patch
    named: frozenset[str]
    globs: Sequence[str] | None

    def part(self, change: Change, entry: TreeEntry | None, before: bytes | None) -> _Part:
        test = is_test(change.path, self.globs)
        # What base has but nobody has read is not the same as what base has not.
        old = b"" if before is None and entry is not None else before
        new = change.content if change.mode is not None else None
        named = self.named - {change.path} if test else self.named
        executable = change.mode == "100755"
        if reason := deciders.decides(change.path, old, new, named, executable=executable):
            planted = not test and deciders.is_planted(change.path, old, named, executable=executable)
            said = f"{_did(change, entry)}; it {reason}"
            flag = Flag(kind="decider", path=change.path, said=said, grave=planted)
            return _Part(old=_partly(change, entry, before), flags=(flag,), is_test=test)
        if test:
            flags = (_test_flag(change, before, self.patch, self.globs),) if entry is not None else ()
            return _Part(old=None, new=change if change.mode is not None else None, flags=flags, is_test=True)
        if change.path.endswith(".rs") and change.mode != "120000":
            return _rust(change, entry, before)
        return _Part(old=change)


def _rust(change: Change, entry: TreeEntry | None, before: bytes | None) -> _Part:
    """Rust's unit tests are in the file with the code."""
    old, new = _text(before), _text(change.content)
    if not inline_tests.has(old) and not inline_tests.has(new):
        return _Part(old=change)
    if change.mode is None:
        flag = Flag(kind="test_removed", path=change.path, said="is deleted with the tests in it")
        return _Part(old=change, flags=(flag,), is_test=True)
    theirs, mine = inline_tests.items(old), inline_tests.items(new)
    if mine is not None and mine == theirs:
        return _Part(old=change)
    put, added = inline_tests.swap(new, old), inline_tests.swap(old, new)
    if put is None or added is None or (entry is not None and before is None):
        said = "has tests among its code which are changed and can't be told apart from it"
        return _Part(
            old=change, flags=(Flag(kind="test_changed", path=change.path, said=said, grave=True),), is_test=True
        )
    back = replace(change, content=_bytes(put))
    if entry is None:
        return _Part(old=back, is_test=True)
    kind, said = (
        ("test_changed", "has other tests inside of it") if mine else ("test_removed", "loses the tests in it")
    )
    flags = (Flag(kind=kind, path=change.path, said=_compared(said, old, new)),) if theirs else ()
    tests = replace(change, content=_bytes(added)) if mine else None
    return _Part(old=back if put != old else None, new=tests, flags=flags, is_test=True)


def _partly(change: Change, entry: TreeEntry | None, before: bytes | None) -> Change | None:
    """The change without the parts that decide, if something is left of it."""
    if entry is None or change.mode in (None, "120000"):
        return None
    content = deciders.restored(change.path, before, change.content)
    return replace(change, content=content) if content not in (None, before) else None


def _possible(changes: Sequence[Change], entries: Mapping[str, TreeEntry]) -> Patch:
    """A patch without those changes that are in the way of files which are there again: a file in the place of their
    folder, or one below them."""
    there = entries.keys() - {change.path for change in changes if change.mode is None}
    folders = {folder for path in there for folder in _above(path)}
    return Patch.of(
        *(
            change
            for change in changes
            if change.mode is None or (change.path not in folders and there.isdisjoint(_above(change.path)))
        )
    )


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _did(change: Change, entry: TreeEntry | None) -> str:
    if change.mode is None:
        return "is deleted"
    return "is new" if entry is None else "is changed"


def _test_flag(change: Change, before: bytes | None, patch: Patch, globs: Sequence[str] | None) -> Flag:
    """What happens to a test that base has."""
    if change.mode is not None:
        old, new = _text(before), _text(change.content)
        said = "only changes its mode" if before == change.content else _compared("is changed", old, new)
        return Flag(kind="test_changed", path=change.path, said=said)
    for other in patch.changes:
        if other.mode is not None and before and other.content == before:
            if is_test(other.path, globs):
                return Flag(kind="test_changed", path=change.path, said=f"is renamed to `{shown(other.path)}`")
            said = f"is moved to `{shown(other.path)}`, where it is no test any more"
            return Flag(kind="test_removed", path=change.path, said=said)
    said = "is deleted" if before is None else f"is deleted with {_counted(_tests_in(_text(before)), 'test')}"
    return Flag(kind="test_removed", path=change.path, said=said)


_TEST_CASE = re.compile(
    r"^[ \t]*(?:(?:async )?def test|#\[(?:\w+::)*(?:test|rstest)\b|func Test|@(?:Test|ParameterizedTest)\b"
    r"|public function test)"
    r"|^[ \t]*(?:it|test|specify|scenario|@test)(?:\.\w+)*\s*[( \"']",
    re.MULTILINE,
)
_ASSERTION = re.compile(
    r"\bassert|\bexpect\s*[({]|\.should\b|\.to(?:Be|Equal|Have|Throw|Match)|\bt\.(?:Error|Fatal|Fail)|\brequire\.[A-Z]|\braises\b"
)
_SKIP = re.compile(
    r"\b(?:skip|skipif|skipTest|xfail|importorskip|SkipNow|Skipf?|xit|xdescribe|xtest|todo|Disabled|Ignore|pending)\b|#\[ignore"
)


def _tests_in(text: str) -> int:
    return len(_TEST_CASE.findall(text))


def _compared(said: str, old: str, new: str) -> str:
    """What became less in it, as far as counting tells."""
    fewer = [
        f"{_counted(before - after, what)} fewer"
        for what, pattern in (("test", _TEST_CASE), ("assertion", _ASSERTION))
        if (before := len(pattern.findall(old))) > (after := len(pattern.findall(new)))
    ]
    if len(_SKIP.findall(new)) > len(_SKIP.findall(old)):
        fewer.append("more that is skipped")
    return f"{said}: {', '.join(fewer)}" if fewer else said


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(content: bytes | None) -> str:
    """Where it is no UTF-8 nothing of it is lost."""
    return (content or b"").decode("utf-8", "surrogateescape")
