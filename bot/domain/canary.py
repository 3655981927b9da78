"""Canaries: one test that must pass and one that must fail, put into a test file to see whether results are told."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bot.domain.tree import TreeEntry

RUNNERS = ("pytest", "unittest", "node", "jest", "vitest", "mocha", "go", "cargo")
"""Runners for which there are canaries."""

_TOKEN = re.compile(r"[a-z][a-z0-9]{7,40}")
_ASIDE = re.compile(r"(?:^|/)(?:node_modules|vendor|target|testdata|test_data|\.[^/]+|venv|__pycache__|fixtures)/")


@dataclass(frozen=True, kw_only=True)
class Canary:
    """`content` is the whole new content of the test file at `path`; `passes` and `fails` are the names of the two
    tests in it. A report may put more around the names."""

    path: str
    content: bytes
    passes: str
    fails: str


def sites(runner: str, ran: Collection[str], base: Sequence[TreeEntry]) -> tuple[TreeEntry, ...]:
    """Base's test files that could take canaries, the best first: files that ran, as far as the ids of tests in `ran`
    tell that, before others that the runner would collect; among equals the last one by its path, so that a failing
    canary keeps as few tests as possible from running."""
    if runner not in _COLLECTED:
        return ()
    present = frozenset(entry.path for entry in base)
    files = [
        entry
        for entry in base
        if entry.type == "blob" and entry.mode != "120000" and _rank(runner, entry.path, present)
    ]
    told = _Told.of(ran)
    return tuple(
        sorted(
            files,
            key=lambda entry: (told.says(runner, entry.path), _rank(runner, entry.path, present), entry.path),
            reverse=True,
        )
    )


def make(runner: str, entry: TreeEntry, content: bytes, token: str) -> Canary | None:
    """The file at `entry` with its two canaries; None where they can't be added to it with any certainty. `token` is
    lower-case letters and digits, begins with a letter, and can't be guessed."""
    if not _TOKEN.fullmatch(token):
        raise ValueError("a token is 8 to 41 lower-case letters and digits, a letter first")
    if runner not in _WRITERS or b"\0" in content:
        return None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    written = _WRITERS[runner](entry.path, text if text.endswith("\n") or not text else f"{text}\n", token)
    if written is None:
        return None
    return Canary(
        path=entry.path,
        content=written.encode(),
        passes=_name(runner, token, "a"),
        fails=_name(runner, token, "b"),
    )


def seen(
    canary: Canary, *, outcomes: Mapping[str, str], failing: Collection[str], exit_code: int, output: str
) -> bool:
    """Whether a run told the truth about both tests. `outcomes` has the outcome (`passed`, `failed`, …) of each test
    by its id, where the report names them all; else it is empty, and the failing one has to be in `failing` or in the
    output. Either way the run's exit code must not be 0."""
    if exit_code == 0:
        return False
    if outcomes:
        told = [
            {outcome for test, outcome in outcomes.items() if name in test} for name in (canary.passes, canary.fails)
        ]
        return told in ([{"passed"}, {"failed"}], [{"passed"}, {"error"}])
    return any(canary.fails in test for test in failing) or canary.fails in output


def _name(runner: str, token: str, which: str) -> str:
    return f"Test_{token}_{which}" if runner == "go" else f"test_{token}_{which}"


def _wrong(token: str) -> str:
    """A word that is not the token."""
    return f"{token[::-1]}0"


_JS = r"(?:[cm]?[jt]sx?)"
_COLLECTED: Mapping[str, tuple[re.Pattern[str], ...]] = {
    "pytest": (re.compile(r"(?:.*/)?(?:test_[^/]*|[^/]*_test)\.py"),),
    "unittest": (re.compile(r"(?:.*/)?test[^/]*\.py"),),
    "node": (
        re.compile(rf"(?:.*/)?(?:[^/]+[._-]test|test-[^/]+|test)\.{_JS}"),
        re.compile(r"(?:.*/)?test/(?:.*/)?[^/]+\.[cm]?js"),
    ),
    "jest": (
        re.compile(rf"(?:.*/)?[^/]+\.(?:test|spec)\.{_JS}"),
        re.compile(rf"(?:.*/)?__tests__/(?:.*/)?[^/]+\.{_JS}"),
    ),
    "vitest": (re.compile(rf"(?:.*/)?[^/]+\.(?:test|spec)\.{_JS}"),),
    "mocha": (re.compile(r"test/[^/]+\.[cm]?js"), re.compile(rf"(?:.*/)?[^/]+\.(?:test|spec)\.{_JS}")),
    "go": (re.compile(r"(?:.*/)?[^/_.][^/]*_test\.go"),),
    "cargo": (
        re.compile(r"(?:.*/)?tests/[^/]+\.rs"),
        re.compile(r"(?:.*/)?src/main\.rs"),
        re.compile(r"(?:.*/)?src/lib\.rs"),
    ),
}
"""Which files a runner collects unless it is told otherwise, the likeliest first."""
_GO_PLATFORM = re.compile(
    r"_(?:aix|android|darwin|dragonfly|freebsd|illumos|ios|js|netbsd|openbsd|plan9|solaris|wasip1|windows"
    r"|386|arm|mips\w*|ppc64\w*|riscv64|s390x|wasm)_test\.go$"
)
_TEST_FOLDER = re.compile(r"(?:^|/)(?:tests?|__tests__|specs?)/")


def _rank(runner: str, path: str, present: frozenset[str]) -> int:
    """How likely the runner collects a file; 0: not at all."""
    patterns = _COLLECTED[runner]
    place = next((at for at, pattern in enumerate(patterns) if pattern.fullmatch(path)), None)
    if place is None or _ASIDE.search(path) or (runner == "go" and _GO_PLATFORM.search(path)):
        return 0
    if runner == "cargo":
        crate = re.sub(r"(?:^|/)(?:tests|src)/[^/]+$", "", path)
        return len(patterns) - place if f"{crate}/Cargo.toml".lstrip("/") in present else 0
    if runner == "unittest":
        folders = path.split("/")[:-1]
        above = ["/".join([*folders[: at + 1], "__init__.py"]) for at in range(len(folders))]
        return 2 if all(name in present for name in above) else 1
    return 2 * (len(patterns) - place) + bool(_TEST_FOLDER.search(path))


@dataclass(frozen=True, kw_only=True)
class _Told:
    """What the ids of tests say of the files that they are in."""

    words: frozenset[str]
    text: str

    @classmethod
    def of(cls, ran: Collection[str]) -> _Told:
        text = "\n".join(ran)
        return cls(words=frozenset(re.findall(r"[\w./-]+", text)), text=text)

    def says(self, runner: str, path: str) -> bool:
        """Whether a file or its module, seen from any folder above it, is named in an id."""
        return any(self._holds(name) for name in _names(runner, path))

    def _holds(self, name: str) -> bool:
        return name in self.words or (
            name in self.text and re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w-])", self.text) is not None
        )


def _names(runner: str, path: str) -> Iterator[str]:
    folders = path.split("/")
    for at in range(len(folders)):
        part = "/".join(folders[at:])
        yield part
        if runner in ("pytest", "unittest"):
            yield part.removesuffix(".py").replace("/", ".")


def _pytest(path: str, text: str, token: str) -> str | None:
    if re.search(r"^(?:pytestmark\b|__test__\b|pytest\.(?:skip|importorskip|exit)\()", text, re.MULTILINE):
        return None
    return (
        f"{text}\n\n"
        f'def test_{token}_a():\n    assert "{token}" == "{token}"\n\n\n'
        f'def test_{token}_b():\n    assert "{token}" == "{_wrong(token)}"\n'
    )


_GUARD = re.compile(
    r"^if[ (]+(?:__name__\s*==\s*['\"]__main__['\"]|['\"]__main__['\"]\s*==\s*__name__)", re.MULTILINE
)


def _unittest(path: str, text: str, token: str) -> str | None:
    if re.search(r"^(?:def load_tests\b|raise |unittest\.main\()", text, re.MULTILINE):
        return None
    guards = [found.start() for found in _GUARD.finditer(text)]
    at = guards[-1] if guards else len(text)
    cases = (
        f"import unittest as unittest_{token}\n\n\n"
        f"class Test_{token}(unittest_{token}.TestCase):\n"
        f'    def test_{token}_a(self):\n        self.assertEqual("{token}", "{token}")\n\n'
        f'    def test_{token}_b(self):\n        self.assertEqual("{token}", "{_wrong(token)}")\n'
    )
    return f"{text[:at]}\n\n{cases}" + (f"\n\n{text[at:]}" if guards else "")


_ESM = re.compile(r"^(?:import\s*(?:[\w*{]|['\"])|export\s+[\w*{])", re.MULTILINE)
_ONLY = re.compile(r"\b(?:test|it|describe|suite|context)\.only\b|\b(?:fit|fdescribe)\(|\bonly: *true\b")


def _is_esm(path: str, text: str) -> bool | None:
    """Whether a script is a module; None where it doesn't show."""
    if path.endswith((".mjs", ".mts")):
        return True
    if _ESM.search(text):
        return True
    return False if path.endswith((".cjs", ".cts")) or re.search(r"\brequire\(|\bmodule\.exports\b", text) else None


def _script(call: str, token: str) -> str:
    return (
        f'{call}("test_{token}_a", () => {{}});\n'
        f'{call}("test_{token}_b", () => {{\n  throw new Error("{_wrong(token)}");\n}});\n'
    )


def _node(path: str, text: str, token: str) -> str | None:
    if _ONLY.search(text):
        return None
    call = f"test_{token}"
    is_esm = _is_esm(path, text)
    if is_esm is None:
        # An import that is called works in both kinds.
        return f'{text}\nimport("node:test").then(({{ test: {call} }}) => {{\n{_script(call, token)}}});\n'
    return f"{text}\n{_head(call, 'node:test', is_esm=is_esm)}{_script(call, token)}"


def _head(call: str, module: str, *, is_esm: bool) -> str:
    if is_esm:
        return f'import {{ test as {call} }} from "{module}";\n'
    return f'const {{ test: {call} }} = require("{module}");\n'


def _jest(path: str, text: str, token: str) -> str | None:
    if _ONLY.search(text):
        return None
    if "@jest/globals" not in text:
        return f"{text}\n{_script('test', token)}"
    call = f"test_{token}"
    return f"{text}\n{_head(call, '@jest/globals', is_esm=bool(_is_esm(path, text)))}{_script(call, token)}"


def _vitest(path: str, text: str, token: str) -> str | None:
    if _ONLY.search(text):
        return None
    call = f"test_{token}"
    return f'{text}\nimport {{ test as {call} }} from "vitest";\n{_script(call, token)}'


def _mocha(path: str, text: str, token: str) -> str | None:
    if _ONLY.search(text):
        return None
    calls = {name: re.search(rf"^[ \t]*{name}\(", text, re.MULTILINE) for name in ("it", "describe", "test", "suite")}
    if calls["it"] or calls["describe"]:
        return f"{text}\n{_script('it', token)}"
    return f"{text}\n{_script('test', token)}" if calls["test"] or calls["suite"] else None


_GO_HEAD = re.compile(r"(?:[ \t]*(?://[^\n]*)?\n|/\*(?:[^*]|\*(?!/))*+\*/)*+package[ \t]+\w+[^\n]*\n")
_GO_BUILD = re.compile(r"^//(?:go:build| \+build)[ \t]+(.*)$", re.MULTILINE)
_GO_HERE = re.compile(r"(?:linux|unix|amd64|!windows|!js|!wasm|!plan9|[ ()&|])*")


def _go(path: str, text: str, token: str) -> str | None:
    head = _GO_HEAD.match(text)
    if head is None or not all(_GO_HERE.fullmatch(build[1]) for build in _GO_BUILD.finditer(head[0])):
        return None
    name = f"testing_{token}"
    return (
        f'{head[0]}\nimport {name} "testing"\n{text[head.end() :]}\n'
        f"func Test_{token}_a(t *{name}.T) {{}}\n\n"
        f'func Test_{token}_b(t *{name}.T) {{\n\tt.Fatal("{_wrong(token)}")\n}}\n'
    )


def _cargo(path: str, text: str, token: str) -> str | None:
    if re.search(r"^#!\[(?:cfg|no_main|cfg_attr\([^)]{0,200}(?:no_main|ignore))", text, re.MULTILINE):
        return None
    tests = (
        f'#[test]\nfn test_{token}_a() {{\n    assert_eq!("{token}", "{token}");\n}}\n\n'
        f'#[test]\nfn test_{token}_b() {{\n    assert_eq!("{token}", "{_wrong(token)}");\n}}\n'
    )
    if path.endswith(("src/lib.rs", "src/main.rs")):
        inner = "".join(f"    {line}\n" if line else "\n" for line in tests.splitlines())
        return f"{text}\n#[cfg(test)]\nmod mod_{token} {{\n{inner}}}\n"
    return f"{text}\n{tests}"


_WRITERS = {
    "pytest": _pytest,
    "unittest": _unittest,
    "node": _node,
    "jest": _jest,
    "vitest": _vitest,
    "mocha": _mocha,
    "go": _go,
    "cargo": _cargo,
}
