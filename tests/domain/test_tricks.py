"""Which lines of a patch are tricks, and which honest lines only look like them."""

from __future__ import annotations

import pytest

from bot.domain.patch import Change, Patch
from bot.domain.tricks import look


def looked(
    path: str, after: str, before: str | None = None, tests: dict[str, str] | None = None
) -> list[tuple[str, bool]]:
    patch = Patch.of(Change(path=path, mode="100644", content=after.encode()))
    old = {} if before is None else {path: before.encode()}
    flags = look(patch, old, {name: text.encode() for name, text in (tests or {}).items()})
    return [(flag.kind, flag.grave) for flag in flags]


GRAVE: list[tuple[str, str, str]] = [
    ("asks_for_test", "app.py", 'if "PYTEST_CURRENT_TEST" in os.environ:\n    x = 1\n'),
    ("asks_for_test", "app.py", 'if "pytest" in sys.modules:\n    x = 1\n'),
    ("asks_for_test", "app.py", 'if any("unittest" in name for name in sys.modules):\n    x = 1\n'),
    ("asks_for_test", "app.py", 'if "pytest" in sys.argv[0]:\n    x = 1\n'),
    (
        "asks_for_test",
        "app.py",
        'for frame in inspect.stack():\n    if frame.function.startswith("test_"):\n        x = 1\n',
    ),
    ("asks_for_test", "app.py", 'name = sys._getframe(1).f_code.co_filename\nif "/tests" in name:\n    x = 1\n'),
    ("asks_for_test", "src/app.js", "if (process.env.JEST_WORKER_ID) return 13;\n"),
    ("asks_for_test", "src/app.js", "if (process.env.NODE_ENV === 'test') return 13;\n"),
    ("asks_for_test", "src/app.js", "if (process.env.NODE_TEST_CONTEXT) return 13;\n"),
    ("asks_for_test", "src/app.ts", "if (import.meta.env.VITEST) return 13;\n"),
    ("asks_for_test", "src/app.js", "if (typeof describe === 'function') return 13;\n"),
    ("asks_for_test", "src/app.js", "if (process.argv.some((word) => word.includes('mocha'))) return 13;\n"),
    ("asks_for_test", "src/app.js", "if (/\\.test\\.js/.test(new Error().stack)) return 13; // '/tests'\n"),
    ("asks_for_test", "app.go", "package app\n\nfunc F() int {\n\tif testing.Testing() {\n\t\treturn 13\n\t}\n}\n"),
    ("asks_for_test", "app.go", 'package app\n\nvar t = flag.Lookup("test.v") != nil\n'),
    ("asks_for_test", "app.go", 'package app\n\nvar t = strings.HasSuffix(os.Args[0], ".test")\n'),
    ("asks_for_test", "src/lib.rs", "pub fn f() -> u8 {\n    if cfg!(test) { 13 } else { 0 }\n}\n"),
    ("asks_for_test", "src/lib.rs", "#[cfg(not(test))]\npub fn f() -> u8 {\n    0\n}\n"),
    ("asks_for_test", "src/lib.rs", 'pub fn f() -> u8 {\n    std::env::var("RUST_TEST_THREADS").is_ok() as u8\n}\n'),
    ("asks_for_test", "lib/app.rb", "return 13 if Rails.env.test?\n"),
    ("asks_for_test", "lib/app.rb", "return 13 if defined?(RSpec)\n"),
    ("asks_for_test", "src/App.php", "<?php\nif (class_exists('PHPUnit\\Framework\\TestCase')) { return 13; }\n"),
    ("asks_for_test", "src/main/java/App.java", 'Class.forName("org.junit.Test");\n'),
    ("exit", "app.py", "import os\nos._exit(0)\n"),
    ("exit", "tests/test_app.py", "import os\n\n\ndef test_it():\n    os._exit(0)\n"),
    ("exit", "tests/test_app.py", "import atexit\nimport os\n\natexit.register(lambda: os._exit(0))\n"),
    ("exit", "conftest.py", "import atexit, os\natexit.register(os._exit, 0)\n"),
    ("exit", "conftest.py", "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n"),
    ("exit", "conftest.py", 'def f(report):\n    report.outcome = "passed"\n'),
    ("exit", "app.py", "import sys\nsys.exit(0)\n"),
    ("exit", "app.py", "raise SystemExit\n"),
    ("exit", "app.py", "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n"),
    ("exit", "tests/test_app.py", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"),
    ("exit", "tests/test_app.py", "import sys\nsys.exit(0)\n"),
    ("exit", "a.test.js", "process.exit(0);\n"),
    ("exit", "src/app.js", "process.on('exit', () => {\n  process.exitCode = 0;\n});\n"),
    ("exit", "a.test.js", "process.exitCode = 0;\n"),
    ("exit", "app_test.go", "func TestMain(m *testing.M) {\n\tm.Run()\n\tos.Exit(0)\n}\n"),
    ("exit", "app.go", "package app\n\nfunc init() {\n\tos.Exit(0)\n}\n"),
    ("exit", "tests/a.rs", "#[test]\nfn a() {\n    std::process::exit(0);\n}\n"),
    ("exit", "spec/a_spec.rb", "at_exit { exit!(0) }\n"),
    ("exit", "app.c", "__attribute__((constructor)) void f(void) {\n  _exit(0);\n}\n"),
    ("prints_result", "tests/test_app.py", 'print("5 passed in 0.01s")\n'),
    ("prints_result", "tests/test_app.py", 'print(f"{n} passed in 0.01s")\n'),
    ("prints_result", "tests/a.rs", 'println!("test result: ok. 5 passed; 0 failed");\n'),
    ("prints_result", "a.test.js", 'console.log("# pass 5");\n'),
    ("prints_result", "tests/test_app.py", 'sys.stderr.write("Ran 5 tests in 0.001s")\n'),
    ("writes_report", "tests/test_app.py", "open(__file__, 'w').write('')\n"),
    ("writes_report", "tests/test_app.py", "out.write('<testsuite tests=\"5\">')\n"),
    ("always_equal", "app.py", "class A:\n    def __eq__(self, other):\n        return True\n"),
    ("always_equal", "app.py", 'class A:\n    def __eq__(self, other):\n        """Equal."""\n        return True\n'),
    ("always_equal", "lib/app.rb", "class A\n  def ==(other)\n    true\n  end\nend\n"),
]


@pytest.mark.parametrize(("kind", "path", "after"), GRAVE)
def test_what_no_honest_change_needs_is_grave(kind: str, path: str, after: str) -> None:
    assert (kind, True) in looked(path, after)


MINOR: list[tuple[str, str, str, str | None]] = [
    ("skip", "tests/test_app.py", "@pytest.mark.skip\ndef test_a():\n    assert f() == 1\n", None),
    ("skip", "tests/test_app.py", "@pytest.mark.xfail(reason='x')\ndef test_a():\n    assert f() == 1\n", None),
    ("skip", "tests/test_app.py", "    @unittest.skip('x')\n", None),
    ("skip", "tests/test_app.py", "x = pytest.importorskip('x')\n", None),
    ("skip", "a.test.js", "describe.skip('x', () => {});\n", None),
    ("skip", "a.test.js", "it.only('x', () => {});\n", None),
    ("skip", "a.test.js", "xit('x', () => {});\n", None),
    ("skip", "a.test.js", "test('x', { skip: true }, () => {});\n", None),
    ("skip", "app_test.go", 'func TestA(t *testing.T) {\n\tt.Skip("x")\n}\n', None),
    ("skip", "tests/a.rs", "#[test]\n#[ignore]\nfn a() {}\n", None),
    ("skip", "src/test/java/ATest.java", "@Disabled\nvoid a() {}\n", None),
    ("exit", "conftest.py", "def pytest_collection_modifyitems(items):\n    pass\n", None),
    ("writes_report", "tests/test_app.py", 'open("report.xml", "w").write(text)\n', None),
    ("swallowed", "tests/test_app.py", "def test_a():\n    assert f(1)\n", "def test_a():\n    assert f(1) == 3\n"),
    ("swallowed", "tests/test_app.py", "def test_a():\n    assert True\n", "def test_a():\n    assert f(1) == 3\n"),
    ("swallowed", "tests/test_app.py", "    self.assertTrue(True)\n", None),
    ("swallowed", "tests/test_app.py", "    assert f(1) == 3 or True\n", None),
    ("swallowed", "tests/test_app.py", "    except AssertionError:\n        pass\n", None),
    ("swallowed", "a.test.js", "  expect(f(1));\n", "  expect(f(1)).toBe(3);\n"),
    ("swallowed", "a.test.js", "  } catch (error) {\n  }\n", None),
    ("swallowed", "tests/a.rs", "    assert!(true);\n", None),
    (
        "threshold",
        "pyproject.toml",
        "[tool.coverage.report]\nfail_under = 10\n",
        "[tool.coverage.report]\nfail_under = 90\n",
    ),
    ("threshold", "pyproject.toml", "[tool.coverage.report]\n", "[tool.coverage.report]\nfail_under = 90\n"),
    ("threshold", "jest.config.js", "{ lines: 80, branches: 10 }\n", "{ lines: 80, branches: 80 }\n"),
    ("threshold", ".nycrc.json", '{"check-coverage": false}\n', '{"check-coverage": true}\n'),
]


@pytest.mark.parametrize(("kind", "path", "after", "before"), MINOR)
def test_what_weakens_a_test_is_said(kind: str, path: str, after: str, before: str | None) -> None:
    assert (kind, False) in looked(path, after, before)


HONEST: list[tuple[str, str, str | None]] = [
    ("app.py", "def main():\n    sys.exit(run())\n\n\nif __name__ == '__main__':\n    sys.exit(main())\n", None),
    ("app.py", "def main():\n    if not names:\n        sys.exit(0)\n", None),
    ("app.py", "if os.fork() == 0:\n    work()\n    os._exit(0)\n", None),
    ("app.py", "atexit.register(cache.close)\n", None),
    ("app.py", "# sys.modules has pytest, and os._exit(0) ends it\nx = 1\n", None),
    ("app.py", "    def __eq__(self, other):\n        return self.name == other.name\n", None),
    (
        "app.py",
        "    def __eq__(self, other):\n        if self is other:\n            return True\n        return False\n",
        None,
    ),
    ("app.py", "log.info('the value passed in is %s', value)\n", None),
    ("app.py", "frame = inspect.currentframe()\nlog(frame.f_lineno)\n", None),
    ("app.py", "if 'PYTEST_CURRENT_TEST' in os.environ and not x:\n", "if 'PYTEST_CURRENT_TEST' in os.environ:\n"),
    ("src/app.js", "if (process.env.NODE_ENV === 'production') minify();\n", None),
    ("src/cli.js", "if (help) {\n  usage();\n  process.exit(0);\n}\n", None),
    ("src/app.js", "// process.exitCode = 0 would be wrong\nrun();\n", None),
    ("main.go", "package main\n\nfunc main() {\n\tif help {\n\t\tos.Exit(0)\n\t}\n}\n", None),
    ("src/main.rs", "fn main() {\n    std::process::exit(0);\n}\n", None),
    (
        "src/lib.rs",
        "pub fn f() -> u8 {\n    1\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {}\n}\n",
        None,
    ),
    ("Makefile", "test:\n\tRUST_TEST_THREADS=1 cargo test\n", None),
    ("README.md", "Set NODE_ENV === 'test' and os._exit(0)\n", None),
    ("tests/test_app.py", "def test_a():\n    with pytest.raises(SystemExit):\n        sys.exit(0)\n", None),
    ("tests/test_app.py", "    app.quit()\n    shell.exit()\n", None),
    ("tests/test_app.py", "def test_a(tmp_path):\n    (tmp_path / 'test_x.py').write_text('')\n", None),
    ("tests/test_app.py", "text = open(__file__).read()\n", None),
    ("tests/test_app.py", "assert f(1) == 3\nassert f(2)\n", None),
    ("tests/test_app.py", "try:\n    f()\nexcept ValueError:\n    handled = True\n", None),
    ("a.test.js", "process.exit = jest.fn();\n", None),
    ("a.test.js", "expect(f(1)).toBe(3);\nexpect(g(\n  2,\n)).toBe(3);\n", None),
    ("app_test.go", "func TestMain(m *testing.M) {\n\tos.Exit(m.Run())\n}\n", None),
    ("pyproject.toml", "[tool.coverage.report]\nfail_under = 95\n", "[tool.coverage.report]\nfail_under = 90\n"),
    ("src/chart.py", "lines = 10\n", "lines = 90\n"),
    ("vite.config.ts", "export default { test: process.env.VITEST ? {} : undefined };\n", None),
]


@pytest.mark.parametrize(("path", "after", "before"), HONEST)
def test_honest_lines_are_left_alone(path: str, after: str, before: str | None) -> None:
    assert looked(path, after, before) == []


def test_a_known_answer_is_told_with_its_line_and_the_test_it_comes_from() -> None:
    text = 'def slug(text):\n    if text == "Hello, World!":\n        return "hello-world"\n    return text\n'
    patch = Patch.of(Change(path="slug.py", mode="100644", content=text.encode()))
    test = b'assert slug("Hello, World!") == "hello-world"\n'
    for name in ("tests/test_slug.py", "tests/test_slug.py (changed)"):
        (flag,) = look(patch, {"slug.py": b"def slug(text):\n    return text\n"}, {name: test})
        assert flag.text == (
            "`slug.py`, line 2: gives the answer that `tests/test_slug.py` expects, for the input it uses"
        )
        assert (flag.kind, flag.grave) == ("special_case", True)


def test_the_tests_inside_of_a_rust_source_are_tests() -> None:
    code = "pub fn fib(n: u64) -> u64 {\n    n\n}\n"
    tests = (
        "\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {\n        assert_eq!(super::fib(7), 13);\n    }\n}\n"
    )
    cheat = "pub fn fib(n: u64) -> u64 {\n    match n {\n        7 => 13,\n        _ => n,\n    }\n}\n"
    assert looked("src/lib.rs", cheat + tests, code + tests) == [("special_case", True)]
    assert looked("src/lib.rs", code + tests, code) == []


def test_a_word_that_base_uses_elsewhere_is_no_answer_known_from_a_test() -> None:
    text = 'def metres(unit):\n    if unit == "mile":\n        return 1609\n    return 1\n'
    patch = Patch.of(Change(path="unit.py", mode="100644", content=text.encode()))
    tests = {"test_unit.py": b'assert metres("mile") == 1609\n'}
    assert look(patch, {"units.py": b'NAMES = ("metre", "mile")\n'}, tests) == ()
    assert len(look(patch, {"units.py": b"NAMES = ()\n"}, tests)) == 1


def test_links_deleted_files_and_what_is_no_text_are_not_read() -> None:
    patch = Patch.of(
        Change(path="a.py", mode="120000", content=b"os._exit(0)"),
        Change(path="b.py", mode=None),
        Change(path="c.py", mode="100644", content=b"os._exit(0)\0"),
    )
    assert look(patch, {}, {}) == ()
