"""Coverage of changed lines, from reports as tools really write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.coverage import (
    LINE_LIMIT,
    MISSED_LIMIT,
    PATHS,
    REPORT_FILES,
    REPORT_LINES,
    SIZE_LIMIT,
    Coverage,
    Lines,
    of_changes,
    read,
)
from bot.domain.patch import COMPARED, Change, Patch


def known(covered: set[int], missed: set[int] | None = None) -> Lines:
    return Lines(covered=frozenset(covered), missed=frozenset(missed or ()))


def cobertura(*files: tuple[str, dict[int, str]], sources: tuple[str, ...] = (), doctype: str = "") -> bytes:
    places = "".join(f"<source>{source}</source>" for source in sources)
    classes = "".join(
        f'<class name="c" filename="{name}"><methods><method name="m"><lines/></method></methods><lines>'
        + "".join(f'<line number="{number}" hits="{hits}"/>' for number, hits in lines.items())
        + "</lines></class>"
        for name, lines in files
    )
    return (
        f'<?xml version="1.0" ?>\n{doctype}<coverage version="7"><!-- by a tool -->\n<sources>\n{places}\n</sources>'
        f'<packages><package name="p"><classes>{classes}</classes></package></packages></coverage>'
    ).encode()


ISTANBUL = '<!DOCTYPE coverage SYSTEM "http://cobertura.sourceforge.net/xml/coverage-04.dtd">'
LCOV = b"""TN:
SF:./src/a.js
FN:1,f
FNDA:1,f
DA:1,1
DA:2,0
DA:3,0,checksum
BRDA:1,0,0,1
LF:3
end_of_record
SF:src\\b.js
DA:7,1e+06
DA:8,-5
end_of_record
SF:src/a.js
DA:2,4
DA:1,0
end_of_record
SF:empty.js
end_of_record
"""
GO = b"""mode: set
example.com/m/a.go:3.19,4.11 1 1
example.com/m/a.go:7.2,8.10 1 0
example.com/m/a.go:4.11,7.3 1 2
example.com/m/sub/s.go:8.2,9.10 1 1
"""

REPORTS: list[tuple[str, str, bytes, dict[str, Lines]]] = [
    (
        "coverage.py",
        "coverage.xml",
        cobertura(("pkg/m.py", {1: "1", 2: "0"}), ("pkg/n.py", {}), sources=("/workspace/repo/src/",)),
        {"/workspace/repo/src/pkg/m.py": known({1}, {2})},
    ),
    (
        "several folders",
        "coverage.xml",
        cobertura(("m.py", {1: "1"}), sources=("/r/a", "/r/b")),
        {"/r/a/m.py": known({1}), "/r/b/m.py": known({1})},
    ),
    ("whole names", "cobertura.xml", cobertura(("/r/m.py", {1: "1"}), sources=("/r",)), {"/r/m.py": known({1})}),
    ("this folder", "coverage.xml", cobertura(("m.py", {1: "0"}), sources=(".",)), {"m.py": known(set(), {1})}),
    ("no folder", "coverage.xml", cobertura(("m.py", {1: "1"})), {"m.py": known({1})}),
    (
        "istanbul",
        "coverage/cobertura-coverage.xml",
        cobertura(("m/a.js", {1: "3"}), sources=("/r",), doctype=ISTANBUL),
        {"/r/m/a.js": known({1})},
    ),
    (
        "lcov",
        "coverage/lcov.info",
        LCOV,
        {"src/a.js": known({1, 2}, {3}), "src/b.js": known({7}, {8})},
    ),
    (
        "Go",
        "cover.out",
        GO,
        {"example.com/m/a.go": known({3, 4, 5, 6, 7}, {8}), "example.com/m/sub/s.go": known({8, 9})},
    ),
    ("nothing", "lcov.info", b"", {}),
    ("prose", "coverage.txt", b"Name Stmts Miss Cover\nTOTAL 1 0 100%", {}),
]


@pytest.mark.parametrize(("path", "data", "files"), [row[1:] for row in REPORTS], ids=[row[0] for row in REPORTS])
def test_reports_of_all_tools_say_which_lines_are_code_and_were_run(
    path: str, data: bytes, files: dict[str, Lines]
) -> None:
    assert path in PATHS
    assert read(path, data) == files


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("lcov.info", b" " * (SIZE_LIMIT + 1)),
        ("coverage.xml", b"no xml"),
        ("coverage.xml", cobertura(("a", {1: "1"}), doctype='<!DOCTYPE x [<!ENTITY a "b">]>')),
        ("coverage.xml", cobertura(("a", {1: "many"}))),
        ("coverage.xml", cobertura(("a", {0: "1"}))),
        ("lcov.info", b"SF:a\nDA:1\n"),
        ("lcov.info", f"SF:a\nDA:{LINE_LIMIT + 1},1\n".encode()),
        ("lcov.info", b"".join(b"SF:%d\n" % at for at in range(REPORT_FILES + 1))),
        ("cover.out", b"mode: set\nnot a block\n"),
        ("cover.out", f"mode: set\na.go:1.1,{REPORT_LINES + 1}.1 1 1\n".encode()),
        ("cover.out", b"mode: set\na.go:2.1,1.1 1 1\n"),
    ],
    ids=[
        "too large",
        "no xml",
        "entities",
        "hits that are none",
        "line 0",
        "no hits",
        "a line too far",
        "too many files",
        "no block",
        "too many lines",
        "a block that ends before it begins",
    ],
)
def test_what_cannot_be_a_report_is_none(path: str, data: bytes) -> None:
    assert read(path, data) is None
    assert of_changes(Patch.of(change("a")), {}, path, data) is None


def change(path: str, content: bytes = b"1\n2\n3\n") -> Change:
    return Change(path=path, mode="100644", content=content)


def lcov(**files: dict[int, int]) -> bytes:
    return "".join(
        f"SF:{name}\n" + "".join(f"DA:{line},{hits}\n" for line, hits in lines.items())
        for name, lines in files.items()
    ).encode()


def test_only_changed_lines_that_are_code_are_counted() -> None:
    patch = Patch.of(change("a", b"1\nnew\n3\n4\nx\ny\n7\n"), change("new", b"a\nb"), change("unknown"))
    data = lcov(a={1: 0, 2: 1, 4: 0, 5: 0, 7: 0}, new={1: 1, 2: 0}, other={1: 0})
    assert of_changes(patch, {"a": b"1\n2\n3\n4\n5\n7\n"}, "lcov.info", data) == Coverage(
        report="lcov.info", lines=4, covered=2, missed=(("a", (5,)), ("new", (2,)))
    )


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (b"", b"a\nb\n", {1, 2}),
        (b"a\nb\n", b"a\nx\nb\n", {2}),
        (b"a\nb\nc\n", b"a\nc\n", set()),
        (b"a\na\n", b"a\na\na\n", {3}),
        (b"a\nb\nc\nd\n", b"x\nb\nc\ny\n", {1, 4}),
        (b"same\n", b"same\n", set()),
        (b"a\nb", b"a\nb\n", set()),
        (b"a\n", b"", set()),
        (b"a\r\nb\r\n", b"a\r\nx\r\n", {2}),
    ],
)
def test_lines_that_the_patch_added_or_changed(before: bytes, after: bytes, lines: set[int]) -> None:
    data = lcov(f=dict.fromkeys(range(1, 9), 0))
    seen = of_changes(Patch.of(change("f", after)), {"f": before}, "lcov.info", data)
    assert set(dict(seen.missed)["f"] if seen else ()) == lines


def test_a_change_too_long_to_compare_counts_from_its_first_line_to_its_last() -> None:
    before = b"head\n" + b"a\n" * COMPARED + b"tail"
    after = b"head\nx\n" + b"a\n" * COMPARED + b"y\ntail"
    data = lcov(f={1: 0, 2: 0, 3: 0, COMPARED + 3: 0, COMPARED + 4: 0})
    seen = of_changes(Patch.of(change("f", after)), {"f": before}, "lcov.info", data)
    assert seen is not None
    assert seen.missed == (("f", (2, 3, COMPARED + 3)),)


def test_at_most_so_many_missed_lines_are_named_but_all_are_counted() -> None:
    content = b"x\n" * MISSED_LIMIT
    lines = {line + 1: 0 for line in range(MISSED_LIMIT)}
    seen = of_changes(
        Patch.of(change("a", content), change("b", content), change("c", content)),
        {},
        "lcov.info",
        lcov(a=dict(list(lines.items())[:10]), b=lines, c=lines),
    )
    assert seen is not None
    assert (seen.lines, seen.covered) == (10 + 2 * MISSED_LIMIT, 0)
    assert {path: len(missed) for path, missed in seen.missed} == {"a": 10, "b": MISSED_LIMIT - 10}


def test_paths_are_found_below_whatever_the_report_puts_before_all_of_them() -> None:
    go = b"mode: set\nex.com/m/a.go:1.1,2.1 1 1\nex.com/m/sub/a.go:1.1,2.1 1 0\n"
    for path, missed in (("a.go", ()), ("sub/a.go", (("sub/a.go", (1, 2)),))):
        seen = of_changes(Patch.of(change(path)), {}, "cover.out", go)
        assert seen == Coverage(report="cover.out", lines=2, covered=2 - 2 * len(missed), missed=missed)
    xml = cobertura(("pkg/m.py", {1: "1"}), sources=("/workspace/repo/src",))
    seen = of_changes(Patch.of(change("src/pkg/m.py")), {}, "coverage.xml", xml)
    assert seen == Coverage(report="coverage.xml", lines=1, covered=1, missed=())


def test_a_file_that_only_ends_like_a_changed_one_is_another() -> None:
    go = b"mode: set\nex.com/m/b.go:1.1,2.1 1 1\nex.com/m/sub/a.go:1.1,2.1 1 0\n"
    assert of_changes(Patch.of(change("a.go")), {}, "cover.out", go) is None


def test_all_paths_are_found_below_the_same_folders() -> None:
    data = lcov(**{"/r/lib/a": {1: 0}, "/r/lib/lib/a": {1: 1}, "/r/lib/lib/b": {1: 1}})
    seen = of_changes(Patch.of(change("lib/a"), change("lib/b")), {}, "lcov.info", data)
    assert seen == Coverage(report="lcov.info", lines=2, covered=2, missed=())


def test_what_is_deleted_or_only_a_link_has_no_lines() -> None:
    patch = Patch.of(Change(path="a", mode=None), Change(path="b", mode="120000", content=b"a"))
    assert of_changes(patch, {"a": b"1\n2"}, "lcov.info", lcov(a={1: 0, 2: 0}, b={1: 0})) is None


@given(
    st.sampled_from(PATHS), st.binary(max_size=60), st.sampled_from([row[2] for row in REPORTS]), st.integers(0, 300)
)
def test_no_report_is_too_strange_to_be_read(path: str, noise: bytes, data: bytes, at: int) -> None:
    mixed = data[:at] + noise + data[at:]
    seen = of_changes(Patch.of(change("src/a.js"), change("a.go")), {}, path, mixed)
    assert seen is None or 0 <= seen.covered <= seen.lines
