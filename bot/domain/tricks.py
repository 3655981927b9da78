"""Tricks in a patch: code that knows or notices its tests, and tests that say less than they seem to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from bot.domain import deciders, inline_tests, literals, special_cases
from bot.domain.flags import Flag
from bot.domain.gate import shown
from bot.domain.patch import Change, Patch
from bot.domain.special_cases import CHANGED as CHANGED
from bot.domain.testfiles import is_test

LINE_LIMIT = 500
"""Characters of a line that are looked at."""
NEAR = 6
"""Lines between the two parts of one trick."""


def look(patch: Patch, before: Mapping[str, bytes], tests: Mapping[str, bytes]) -> tuple[Flag, ...]:
    """What the patch adds that no honest change needs (grave), or that people should have seen. `before` has contents
    of base by path; `tests` those of test files, of base and of the candidate. Reads only what is added."""
    texts = {path: _decoded(content) for path, content in tests.items()}
    known = {path.removesuffix(CHANGED) for path in tests}
    files = [
        _File.of(change, before.get(change.path), is_test=change.path in known or _supports_tests(change.path))
        for change in patch.changes
        if change.mode in ("100644", "100755") and b"\0" not in change.content
    ]
    for file in files:
        if file.inner:
            texts[f"{file.path}{CHANGED}"] = file.inner
    code = [file for file in files if not file.is_test and literals.is_code(file.path)]
    answers = special_cases.Answers(
        tests=texts,
        before={
            path: _decoded(content) for path, content in before.items() if path not in known and not is_test(path)
        }
        | {file.path: file.old for file in code if file.old},
        after={file.path: file.text for file in code},
    )
    flags = [flag for file in files for flag in file.flags()]
    for file in code:
        for line, where in answers.known_in(file.path, file.added):
            said = f"gives the answer that `{shown(where)}` expects, for the input it uses"
            flags.append(Flag(kind="special_case", path=file.path, said=said, line=line, grave=True))
    return tuple(dict.fromkeys(flags))


def _supports_tests(path: str) -> bool:
    return is_test(path) or deciders.is_configuration(path)


@dataclass(frozen=True, kw_only=True)
class _File:
    """One file of the patch: its text, what is new in it, and base's text (empty: there was none). Of a Rust source,
    `text` has its tests blanked, and `inner` is what they are."""

    path: str
    text: str
    old: str
    is_test: bool
    inner: str = ""

    @classmethod
    def of(cls, change: Change, before: bytes | None, *, is_test: bool) -> _File:
        text, old = _decoded(change.content), _decoded(before or b"")
        inner = ""
        if change.path.endswith(".rs") and not is_test and (inline_tests.has(text) or inline_tests.has(old)):
            inner = "\n".join(filter(None, (inline_tests.items(text), inline_tests.items(old))))
            text, old = (inline_tests.code(each) or each for each in (text, old))
        return cls(path=change.path, text=text, old=old, is_test=is_test, inner=inner)

    @cached_property
    def lines(self) -> Sequence[str]:
        return [line[:LINE_LIMIT] for line in self.text.split("\n")]

    @cached_property
    def added(self) -> Mapping[int, str]:
        """New lines by their numbers."""
        old = frozenset(line.strip() for line in self.old.split("\n"))
        return {number: line for number, line in enumerate(self.lines, 1) if line.strip() and line.strip() not in old}

    def near(self, number: int, pattern: re.Pattern[str]) -> bool:
        """Whether a line in the neighbourhood fits as well."""
        return any(pattern.search(line) for line in self.lines[max(0, number - NEAR) : number + NEAR])

    def flags(self) -> Iterator[Flag]:
        for trick in _TRICKS:
            if literals.is_code(self.path) and trick.where(self):
                for number in trick.lines(self):
                    yield Flag(kind=trick.kind, path=self.path, said=trick.said, line=number, grave=trick.grave)
        yield from _always_equal(self)
        if self.is_test and literals.is_code(self.path):
            yield from _swallowed(self)
        yield from _thresholds(self)


def _decoded(content: bytes) -> str:
    return content.decode("utf-8", "replace").replace("\r\n", "\n")


_COMMENT = re.compile(r"\s*(?:#(?![!\[])|//|/?\*|--\s)")


def _is_comment(path: str, line: str) -> bool:
    if literals.ending(path) in ("py", "rb"):
        return line.lstrip().startswith("#")
    return _COMMENT.match(line) is not None


@dataclass(frozen=True, kw_only=True)
class _Trick:
    """What a line of one kind of file says by itself, or with another one `beside` it."""

    kind: str
    said: str
    pattern: re.Pattern[str]
    where: Callable[[_File], bool]
    beside: re.Pattern[str] | None = None
    without: re.Pattern[str] | None = None
    """What makes it honest if it is beside it."""
    nowhere: re.Pattern[str] | None = None
    """What makes it honest if it is anywhere in the file."""
    unless: re.Pattern[str] | None = None
    """What makes it honest if it is on the same line."""
    unquoted: bool = False
    """Lines that are a text themselves do not count."""
    grave: bool = True

    def lines(self, file: _File) -> list[int]:
        """Where the patch puts it. What only moves, or changes in a line that had it before, does not count."""
        found = [
            number
            for number, line in file.added.items()
            if self.pattern.search(line)
            and not (self.unquoted and line.lstrip().startswith(("'", '"', "`")))
            and not _is_comment(file.path, line)
            and not (self.unless is not None and self.unless.search(line))
            and not (self.without is not None and file.near(number, self.without))
            and (self.beside is None or file.near(number, self.beside))
        ]
        if self.nowhere is not None and self.nowhere.search(file.text):
            return []
        if not found or not file.old:
            return found
        had, has = (
            sum(bool(self.pattern.search(line[:LINE_LIMIT])) for line in text.split("\n"))
            for text in (file.old, file.text)
        )
        return found if has > had else []


def _code(file: _File) -> bool:
    return not file.is_test


def _program(file: _File) -> bool:
    """Code that is no shell's: there, names of variables are set as often as they are asked for."""
    return not file.is_test and literals.ending(file.path) not in ("sh", "bash", "mk", "json")


def _test(file: _File) -> bool:
    return file.is_test


def _any(file: _File) -> bool:
    return True


_ASKS = "asks whether it is being tested"
_ENDS = "ends the process, whatever its tests say"
_AT_END = "fixes the exit status when the process ends"
_AT_LOAD = "ends the process as soon as it is loaded"
_FIXES = "changes what a run of the tests comes to"
_PRINTS = "prints what a runner prints at its end"
_DOUBLE = r"jest\.|vi\.|sinon|[Mm]ock|[Ss]tub|monkeypatch|chai|require\("
"""What test doubles are made with."""
_TEMPORARY = re.compile(r"tmp|temp", re.IGNORECASE)

_TRICKS: Sequence[_Trick] = (
    _Trick(
        kind="asks_for_test",
        said=_ASKS,
        where=_program,
        pattern=re.compile(
            r"PYTEST_(?:CURRENT_TEST|VERSION|XDIST_\w+|PLUGINS|ADDOPTS)|JEST_WORKER_ID|NODE_TEST_CONTEXT|\bVITEST(?:_\w+)?\b"
            r"|RUST_TEST_\w+|\bNEXTEST\w*|\bMOCHA_\w+|PHPUNIT_\w+|npm_lifecycle_event"
            r"|\bsys\.modules\b.*(?:test|nose)|['\"]_?(?:py|unit)test['\"].*\bsys\.modules\b"
            r"|(?:sys\.argv|sys\.orig_argv|os\.Args|process\.(?:argv|execArgv)|\$PROGRAM_NAME|\bARGV|require\.main)\b"
            r".*(?:pytest|unittest|jest|vitest|mocha|rspec|\.test\b|--test)"
            r"|['\"](?:pytest|unittest|jest|vitest|mocha|rspec)['\"].*(?:sys\.argv|os\.Args|process\.argv|\$0)"
            r"|NODE_ENV\b['\"\]]*\s*[!=]==?\s*['\"`]test|['\"`]test['\"`]\s*[!=]==?\s*process\.env"
            r"|\btesting\.Testing\(\)|flag\.Lookup\(\"test\.|HasSuffix\(os\.Args\[0\],\s*\"[._]test"
            r"|\bcfg!\(test\b|\bcfg\(not\(test\)|\bcfg_attr\(test\b"
            r"|(?:RAILS|RACK|APP|MIX|DJANGO|FLASK)_ENV\b.*['\"]test|\bRails\.env\.test\?|\bMix\.env\b.*:test"
            r"|\bdefined\?\(\s*(?:RSpec|Minitest|Test::Unit)|(?:class_exists|defined)\(\s*['\"]\\*(?:PHPUnit|PHPUNIT)"
            r"|Class\.forName\(\s*\"org\.(?:junit|testng)|getProperty\(\s*\"(?:surefire|sun\.java\.command)"
            r"|\btypeof\s+(?:jest|describe|it|vi|expect|beforeEach|mocha|__karma__)\b"
            r"|\b(?:globalThis|global|window)\.(?:jest|describe|it|vi|expect|mocha|__karma__)\b|import\.meta\.jest"
        ),
    ),
    _Trick(
        kind="asks_for_test",
        said="looks at who called it, for a test",
        where=_program,
        pattern=re.compile(
            r"\binspect\.(?:stack|currentframe|getouterframes)\(|\bsys\._getframe\(|\btraceback\.(?:extract|format)_stack\("
            r"|\bnew Error\(\)\.stack|\bError\.captureStackTrace|\bruntime\.Callers?\(|\bgetStackTrace\(\)"
            r"|\bcaller_locations\b|\bdebug_backtrace\(|\bBacktrace::(?:force_)?capture\(|\bStackWalker\b|\bdebug\.Stack\("
            r"|\bthread::current\(\)\s*\.name\(\)"
        ),
        beside=re.compile(
            r"['\"`/._](?:pytest|unittest|jest|mocha|vitest|rspec|junit|phpunit|_?tests?)\b|['\"`]_?test_",
            re.IGNORECASE,
        ),
    ),
    _Trick(
        kind="exit",
        said=_ENDS,
        where=_any,
        pattern=re.compile(
            r"\bos\._exit\(\s*0?\s*\)|\bprocess\.reallyExit\(|\bos\.kill\(\s*os\.getp?pid\(|\bsignal\.raise_signal\("
        ),
        nowhere=re.compile(r"\bfork(?:pty)?\("),
    ),
    _Trick(
        kind="exit",
        said=_AT_END,
        where=_any,
        pattern=re.compile(
            r"\batexit\.register\b|\bat_exit\b|\bregister_shutdown_function\b|\batexit\(|\baddShutdownHook\b"
        ),
        beside=re.compile(r"\b_exit\b|\bexit!|\bexit\(\s*0|\.halt\(\s*0|exitstatus|SystemExit"),
    ),
    _Trick(
        kind="exit",
        said=_AT_END,
        where=_any,
        pattern=re.compile(r"\bprocess\.(?:on|once|prependListener)\(\s*['\"`](?:exit|beforeExit)"),
        beside=re.compile(r"exitCode|process\.exit|reallyExit"),
    ),
    _Trick(
        kind="exit",
        said="fixes the exit status",
        where=_any,
        pattern=re.compile(r"\bprocess\.exitCode\s*=\s*0|\bexitstatus\s*=\s*0|\btestsfailed\s*=\s*0"),
    ),
    _Trick(
        kind="exit",
        said=_ENDS,
        where=_test,
        pattern=re.compile(
            r"(?<![\w.])(?:sys\.|builtins\.)?(?:exit|quit)\(\s*0?\s*\)|\bSystemExit\(\s*0?\s*\)"
            r"|\bprocess\.exit\(\s*0?\s*\)|\bos\.Exit\(\s*0\s*\)|\bprocess::exit\(\s*0\s*\)|\bSystem\.exit\(\s*0\s*\)"
            r"|\.halt\(\s*0|\bexit!|\bDeno\.exit\(\s*0?\s*\)|\bpytest\.exit\(|\bos\.abort\("
        ),
        without=re.compile(
            r"raises|[tT]hrows?\b|rescue|except |should_panic|__name__|" + _DOUBLE.partition("|chai")[0]
        ),
    ),
    _Trick(
        kind="exit",
        said=_AT_LOAD,
        where=_code,
        pattern=re.compile(r"^(?:(?:sys\.)?exit\(\s*0?\s*\)|quit\(\s*\)|raise SystemExit(?:\(\s*0?\s*\))?)\s*$"),
    ),
    _Trick(
        kind="exit",
        said=_AT_LOAD,
        where=_code,
        pattern=re.compile(r"\bos\.Exit\(\s*0\s*\)|\b_?exit\(\s*0\s*\)|\bprocess::exit\(\s*0\s*\)"),
        beside=re.compile(r"\bfunc init\(\)|__attribute__\s*\(\(\s*(?:con|de)structor|#\[(?:ctor|dtor)"),
    ),
    _Trick(
        kind="exit",
        said=_FIXES,
        where=_any,
        pattern=re.compile(
            r"\b(?:sys\.exit|os\._exit|builtins\.\w+|process\.exit|assert\.\w+)\s*=(?!=)"
            r"|\bunittest\.(?:TestCase|TestResult|case|result|main)\b[\w.]*\s*=(?!=)|\b_?pytest\.[\w.]+\s*=(?!=)"
            r"|\b(?:report|rep|outcome|result|call)\.outcome\s*=\s*['\"]passed|\boutcome\.force_result\("
            r"|\bwasSuccessful\s*="
            r"|\bsetattr\(\s*(?:unittest|_?pytest|builtins|sys|os)\b[\w.]*\s*,"
            r"|\b(?:globalThis|global)\.(?:expect|assert|it|test)\s*=(?!=)|(?<!\w)AssertionError\s*=(?!=)"
        ),
        unless=re.compile(_DOUBLE),
    ),
    _Trick(
        kind="exit",
        said="takes a part in what the runner reports",
        where=_any,
        grave=False,
        pattern=re.compile(r"\bpytest_(?:runtest_\w+|sessionfinish|unconfigure|report_teststatus|collection_\w+)\b"),
    ),
    _Trick(
        kind="prints_result",
        said=_PRINTS,
        where=_any,
        unquoted=True,
        pattern=re.compile(
            r"(?:(?:print|write|puts|echo|log|info|Print\w*)\b|println!|format!).*"
            r"(?:(?:\d|\}|%d|\") passed in\b|\btest result: ok\b|[#ℹ] pass \S"
            r"|\bOK \((?:\d|\$?\{|%d)|\bTests: +\d|\d passing \("
            r"|--- PASS: |\d examples?, 0 failures|\bRan (?:\d|\{|%d)\S* tests? in|\bTest Suites: )"
        ),
    ),
    _Trick(
        kind="writes_report",
        said="writes a report of test results by itself",
        where=_any,
        pattern=re.compile(r"(?:write|open|print|echo|=).*<testsuites?\b"),
    ),
    _Trick(
        kind="writes_report",
        said="writes to its own file while it runs",
        where=_any,
        pattern=re.compile(
            r"\bopen\(\s*__file__\s*,\s*(?:mode\s*=\s*)?['\"](?:[wax]|r\+)|Path\(\s*__file__\s*\)\.(?:write_|unlink|rename)"
            r"|\bFile\.write\(\s*__FILE__|(?:writeFile|unlink|rm|rename|appendFile)(?:Sync)?\(\s*(?:__filename|import\.meta)"
            r"|\b(?:os\.(?:remove|unlink|rename|replace)|shutil\.(?:move|rmtree))\(\s*__file__"
        ),
    ),
    _Trick(
        kind="writes_report",
        said="may write to tests or to their report",
        where=_any,
        grave=False,
        pattern=re.compile(
            r"\bopen\(.*['\"][wa][b+]*['\"]|write_(?:text|bytes)\(|writeFile(?:Sync)?\(|os\.(?:WriteFile|Create)\("
            r"|fs::write\(|File\.write\(|\bunlink\w*\(|os\.(?:remove|rename|replace)\("
        ),
        beside=re.compile(
            r"junit|report\.xml|test-results|['\"`/](?:tests?|spec|__tests__)/|_test\.go|\.(?:test|spec)\.[jt]s|conftest"
            r"|\btest_\w+\.py|site-packages|node_modules"
        ),
        without=_TEMPORARY,
    ),
    _Trick(
        kind="skip",
        said="keeps tests from running or from counting",
        where=_test,
        grave=False,
        pattern=re.compile(
            r"\bpytest\.(?:mark\.)?(?:skip|skipif|xfail|importorskip)\b"
            r"|\bunittest\.(?:skip\w*|expectedFailure|SkipTest)\b"
            r"|\.skipTest\(|\b(?:it|test|describe|context|suite)\.(?:skip|only|todo|failing|fixme|skipIf|runIf)\b"
            r"|\b(?:xit|xtest|xdescribe|xcontext|fit|fdescribe|fcontext)\s*[( ]|\b[tb]\.[sS]kip(?:f|Now)?\("
            r"|testing\.Short\(\)"
            r"|#\[ignore|@(?:Disabled|Ignore)\b|\bmarkTest(?:Skipped|Incomplete)\(|\bpending\b(?:\s+['\"]|\()"
            r"|\b(?:skip|todo|only)\s*:\s*(?:true|['\"])|\bcollect_ignore|__test__\s*=\s*False|\bpytestmark\b"
            r"|\[Ignore|Skip\s*=\s*\""
        ),
    ),
)

_EQUAL = re.compile(r"\bdef (?:__eq__|==|eql\?)|\boperator\s*==\s*\(|\bboolean equals\(")
_YES = re.compile(r"[:{]?\s*return [Tt]rue\b|\s*true\s*;?\s*$")


def _always_equal(file: _File) -> Iterator[Flag]:
    """Methods that say of whatever they are asked that it is the same."""
    for number, line in file.added.items():
        if found := _EQUAL.search(line):
            rest = re.sub(r"^[^)]*\)[^:{]*", "", line[found.end() :])
            body = [rest.strip(" :{"), *(each.strip() for each in file.lines[number : number + 3])]
            first = next((each for each in body if each and not each.startswith(("#", "//", '"""'))), "")
            if _YES.match(first):
                said = "says of anything that it is equal"
                yield Flag(kind="always_equal", path=file.path, said=said, line=number, grave=True)


# A test that says less

_ASSERT = re.compile(r"\s*assert\s+(?P<what>[^=<>!]+?)\s*$")
_COMPARES = re.compile(r"assert\s+(?P<what>[^=<>!]+?)\s*(?:[=!]=|<|>|\bis\b|\bin\b)")
_EMPTY = re.compile(
    r"\s*(?:assert\s+(?:True|1|not False)\s*(?:,.*)?$|assert!?\(\s*true\s*\)|(?:self\.)?assertTrue\(\s*[Tt]rue\s*[,)]"
    r"|expect\(\s*(?:true|1)\s*\)\.to(?:Be|Equal|BeTruthy)\(\s*(?:true|1)?\s*\)|assert\.ok\(\s*true\s*\)"
    r"|expect\([^()]*(?:\([^()]*\))?[^()]*\)\s*;?\s*$|assert\s+.*\bor True\b)"
)
_CAUGHT = re.compile(r"\s*(?:except\b[^:]*:|\}?\s*catch\s*(?:\([^)]*\))?\s*\{|rescue\b.*)\s*(?P<rest>.*)$")
_NOTHING = re.compile(r"\s*(?:pass|\}|\.\.\.|return|end)?\s*[;}]?\s*$")


def _swallowed(file: _File) -> Iterator[Flag]:
    """Assertions that lost what they compared with, that can't fail, or whose failing nobody hears of."""
    kept = frozenset(line.strip() for line in file.lines)
    lost = {
        found["what"]
        for line in file.old.split("\n")
        if line.strip() not in kept and (found := _COMPARES.match(line.strip()[:LINE_LIMIT]))
    }
    for number, line in file.added.items():
        checked = _ASSERT.match(line)
        after = file.lines[number] if number < len(file.lines) else ""
        if checked and checked["what"] in lost:
            said = "does not say any more what has to come out"
        elif _EMPTY.match(line):
            said = "is a check that can't fail"
        elif (caught := _CAUGHT.match(line)) and _NOTHING.match(caught["rest"]) and _NOTHING.match(after):
            said = "keeps still about what failed"
        else:
            continue
        yield Flag(kind="swallowed", path=file.path, said=said, line=number)


_THRESHOLD = re.compile(
    r"\b(fail_under|cov-fail-under|branches|functions|lines|statements|minimum_coverage|check-coverage|minimum)\b"
    r"['\"]?\s*[:= ]\s*['\"]?([0-9]{1,3}(?:\.[0-9]+)?|true|false)\b"
)
_HAS_THRESHOLDS = re.compile(
    r"(?:.*/)?(?:pyproject\.toml|setup\.cfg|tox\.ini|\.coveragerc|pytest\.ini|package\.json|(?:jest|vitest|vite|karma)\.[\w.-]+"
    r"|\.(?:nycrc|c8rc)(?:\.json)?|makefile|noxfile\.py|[^/]*\.gradle(?:\.kts)?|[^/]*\.sh|\.simplecov|[^/]*_helper\.rb)",
    re.IGNORECASE,
)


def _thresholds(file: _File) -> Iterator[Flag]:
    """Coverage that has to be reached, where it is less than it was."""
    if not _HAS_THRESHOLDS.fullmatch(file.path):
        return
    new = list(_wanted(file.text))
    left = [(name, value) for name, value, _ in new]
    for name, value, _ in _wanted(file.old):
        if (name, value) in left:
            left.remove((name, value))
            continue
        now, line = next(((other, at) for key, other, at in new if key == name), (0.0, None))
        if now < value:
            said = "asks for less coverage of the code by tests than before"
            yield Flag(kind="threshold", path=file.path, said=said, line=line)


def _wanted(text: str) -> Iterator[tuple[str, float, int]]:
    words = {"true": 1.0, "false": 0.0}
    for number, line in enumerate(text.split("\n"), 1):
        for name, value in _THRESHOLD.findall(line[:LINE_LIMIT]):
            yield name, words[value] if value in words else float(value), number
