"""Which files decide how tests run, and why: what a runner, an interpreter or a shell reads before any test."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from bot.domain import manifests
from bot.domain.config import Check

TEXT_LIMIT = 200_000
"""Bytes of a script that are read for what it runs in turn."""


def decides(
    path: str, before: bytes | None, after: bytes | None, named: frozenset[str], *, executable: bool = False
) -> str | None:
    """Why a file with these two contents (None: not there) decides how tests run, as the end of a sentence that
    begins with "it"; None where it doesn't, or where what changed in it doesn't. `named` is of `named`."""
    if reason := _stands_in(path, before, named, executable=executable):
        return reason
    if _is_data(path, named):
        return None
    if reason := _by_name(path):
        return reason
    if manifests.is_known(path):
        if parts := manifests.differing(path, before, after):
            said = ", ".join(f"`{_plain(part)}`" for part in parts[:4] if part)
            return f"says how tests are built or run ({said or 'it can not be read in parts'})"
    elif reason := _by_content(path, before, after):
        return reason
    if path in named:
        return "is run by a check's command"
    return None


def is_planted(path: str, before: bytes | None, named: frozenset[str], *, executable: bool = False) -> bool:
    """Whether a new file is of the kind that does nothing but get between a runner and its tests."""
    if before is not None:
        return False
    return _HOOK.search(path.casefold()) is not None or _is_fake(path, named, executable=executable) is not None


def restored(path: str, before: bytes | None, after: bytes | None) -> bytes | None:
    """The candidate's file with base's deciding parts; None where base's whole file (or its absence) has to do."""
    if before is None or after is None or not manifests.is_known(path):
        return None
    return manifests.merged(path, before, after)


def is_configuration(path: str) -> bool:
    """Whether a file decides how tests run by its name alone, whatever is in it."""
    return _by_name(path) is not None


# What stands in for something else

_HOOK = re.compile(
    r"(?:^|/)(?:(?:site|user)customize(?:\.\w+|/__init__\.\w+)|[^/]+\.pth|python\d*\._pth|pyvenv\.cfg"
    r"|[^/]+\.(?:dist|egg)-info(?:/.+)?|[^/]+\.egg-link|minitest/[^/]+_plugin\.rb"
    r"|meta-inf/services/(?:org\.junit|org\.testng|org\.apache\.maven)[^/]*)$"
)
"""What an interpreter or a runner loads by itself from wherever it lies on its way."""
_MODULE = re.compile(
    r"(?:(?P<root>.+)/)?(?P<name>(?!__init__\b)\w+)(?:\.(?:py|pyc|pyd|so|[\w-]+\.so)|/__init__\.pyc?)"
)
_ROOTS = frozenset({"", "src", "lib", "python"})
_TEST_ROOT = re.compile(r"(?:.*/)?(?:tests?|specs?|__tests__)")
_PYTHON_RUNNERS = frozenset(
    {
        *("pytest", "_pytest", "pluggy", "iniconfig", "coverage", "xdist", "pytest_cov", "pytest_asyncio", "py"),
        *(
            "nose",
            "nose2",
            "hypothesis",
            "tox",
            "nox",
            "unittest",
            "unittest2",
            "doctest",
            "trial",
            "mock",
            "asynctest",
        ),
    }
)
_TOOL = re.compile(
    r"(?:pytest|py\.test|python[\d.]*|pypy\d?|pip[\d.]*|uv|poetry|tox|nox|coverage|unittest|node|npm|npx|yarn|pnpm|bun|deno"
    r"|jest|vitest|mocha|ava|tap|nyc|c8|tsc|tsx|ts-node|go|gofmt|gotestsum|cargo(?:-\w+)?|rustc|make|gmake|cmake|ctest"
    r"|ninja|meson|rspec|rake|bundle|ruby|prove|perl|php|phpunit|composer|mvn|gradle|java|javac|dotnet|swift|mix|sh|bash"
    r"|dash|zsh|env|timeout|time|test|true|false|cat|grep|diff|cmp|expr|sed|awk|git|cc|gcc|g\+\+|clang|ld|tee|xargs|find)"
    r"(?:\.(?:exe|cmd|bat|ps1))?"
)
_BINS = frozenset({"bin", ".bin", "sbin", "scripts", "shims"})
_ENVIRONMENTS = re.compile(r"(?:^|/)(?:node_modules|\.venv|venv|site-packages|dist-packages|\.tox|\.nox)/")
_VENDORED = re.compile(
    r"(?:^|/)vendor/(?:bin/|autoload\.php$|composer/|phpunit/|pestphp/|mockery/"
    r"|(?:github\.com/(?:stretchr|onsi|google/go-cmp|smartystreets|frankban)|gotest\.tools|go\.uber\.org/mock)/)"
)


def _stands_in(path: str, before: bytes | None, named: frozenset[str], *, executable: bool) -> str | None:
    if _HOOK.search(path.casefold()):
        return "is loaded by an interpreter or a runner as soon as that starts"
    if fake := _is_fake(path, named, executable=executable):
        return f"can be taken for `{_plain(fake)}`, which runs or judges tests"
    if before is None and (module := _MODULE.fullmatch(path)) and _is_root(module["root"] or "", named):
        if module["name"] in sys.stdlib_module_names and module["name"] != "__future__":
            return f"can be imported in place of the standard `{module['name']}`"
    elif _ENVIRONMENTS.search(path):
        return "is in a folder of installed packages"
    if _VENDORED.search(path):
        return "is a part of the packages that run or judge tests"
    return None


def _is_fake(path: str, named: frozenset[str], *, executable: bool) -> str | None:
    """The runner or tool that a file could be taken for."""
    folders, name = path.split("/")[:-1], path.rpartition("/")[2]
    if _TOOL.fullmatch(name) and (executable or _BINS & set(folders) or "node_modules" in folders):
        return name
    module = _MODULE.fullmatch(path)
    if module and module["name"] in _PYTHON_RUNNERS and _is_root(module["root"] or "", named):
        return module["name"]
    if (inside := re.search(r"^(?:.*/)?node_modules/((?:@[^/]+/)?[^/]+)/", path)) and manifests.is_runner(inside[1]):
        return inside[1]
    return None


def _is_root(folder: str, named: frozenset[str]) -> bool:
    """Whether modules are imported from a folder by their bare names."""
    return folder in _ROOTS or f"{folder}/" in named or _TEST_ROOT.fullmatch(folder) is not None


# What is read by its name

_DATA = frozenset({"fixtures", "__fixtures__", "testdata", "test_data", "test-data"})


def _is_data(path: str, named: frozenset[str]) -> bool:
    """Whether a file is only food for tests, whatever it is called."""
    folders = path.split("/")[:-1]
    return bool(_DATA & set(folders)) and not any(
        f"{'/'.join(folders[:at])}/" in named for at in range(len(folders) + 1)
    )


_CODE = r"(?:[cm]?[jt]sx?|json5?|ya?ml|toml)"
_NAMES: Sequence[tuple[str, re.Pattern[str]]] = tuple(
    (reason, re.compile(pattern))
    for reason, pattern in (
        ("is loaded by pytest before any test", r"conftest\.py"),
        ("configures pytest", r"\.?pytest\.(?:ini|toml)"),
        ("configures tox, and through it pytest and others", r"tox\.ini|tox\.toml"),
        ("says what nox runs", r"noxfile\.py"),
        ("configures how coverage is measured", r"\.coveragerc(?:\.toml)?|codecov\.ya?ml|\.codecov\.ya?ml"),
        ("can replace how the package is built", r"hatch\.toml|hatch_build\.py|pdm_build\.py"),
        ("says which commands the project's tool runs", r"tasks\.py|dodo\.py|manage\.py|fabfile\.py|pavement\.py"),
        ("configures jest", rf"jest[.-][\w.-]*\.{_CODE}|\.jestrc.*|setuptests\.[jt]sx?|setup-jest\.[jt]s"),
        ("configures vitest", rf"(?:vitest|vite)\.[\w.-]+\.{_CODE}|vitest[.-]setup\.[jt]sx?"),
        ("configures mocha", r"\.mocharc.*|mocha\.opts"),
        ("configures node's test runner", r"node\.config\.json"),
        (
            "configures a test runner",
            rf"(?:karma|ava|playwright|cypress|wdio|nightwatch|web-test-runner|jasmine|testem|c8|nyc|stryker)"
            rf"(?:\.config|\.conf)?\.{_CODE}|\.(?:taprc|c8rc|nycrc|istanbul|tap)(?:\..+)?|jasmine\.json|dart_test\.yaml",
        ),
        (
            "says how sources are compiled for tests",
            rf"babel\.config\.{_CODE}|\.babelrc.*|\.swcrc|tsconfig[\w.-]*\.json",
        ),
        (
            "configures the package manager",
            r"\.npmrc|\.yarnrc(?:\.ya?ml)?|\.pnp\.[cm]?js|\.pnp\.loader\.mjs|\.pnpmfile\.[cm]?js|pnpm-workspace\.ya?ml"
            r"|bunfig\.toml|pip\.conf|pip\.ini|uv\.toml|\.condarc|\.gemrc",
        ),
        ("says what is run in the workspace", r"(?:lerna|nx|turbo|project|deno|rush)\.jsonc?"),
        (
            "says which commands are run",
            r"rakefile(?:\.rb)?|\.?justfile|taskfile\.ya?ml|magefile\.go|earthfile|procfile",
        ),
        ("is loaded by rspec before any test", r"spec_helper\.rb|rails_helper\.rb"),
        ("is loaded before any test", r"test_helper\.(?:rb|exs)|bootstrap\.php"),
        ("configures rspec", r"\.rspec(?:-local)?|\.simplecov|cucumber\.ya?ml"),
        ("is built and run by cargo before anything else", r"build\.rs"),
        (
            "chooses the tools that run the tests",
            r"rust-toolchain(?:\.toml)?|\.tool-versions|\.python-version|\.nvmrc|\.node-version|\.ruby-version|\.mise\.toml"
            r"|mise\.toml|global\.json",
        ),
        ("decides how the tests of a Rust workspace are run", r"nextest\.toml|clippy\.toml"),
        ("decides which modules go takes from where", r"go\.work"),
        (
            "is a part of the build that runs the tests",
            r"settings\.gradle(?:\.kts)?|gradle\.properties|init\.gradle.*|gradlew(?:\.bat)?|mvnw(?:\.cmd)?|maven\.config"
            r"|gradle-wrapper\.(?:jar|properties)|maven-wrapper\.(?:jar|properties)|jvm\.config|extensions\.xml"
            r"|junit-platform\.properties|testng\.xml|directory\.build\.(?:props|targets)|.*\.runsettings"
            r"|xunit\.runner\.json|nuget\.config|package\.swift|mix\.exs|meson\.build|ctesttestfile\.cmake|module\.bazel"
            r"|build(?:\.bazel)?|workspace(?:\.bazel)?|\.bazelrc|build\.sbt|build\.sc|build\.xml",
        ),
        ("configures phpunit", r"phpunit.*\.xml(?:\.dist)?|pest\.php|\.user\.ini|php\.ini"),
        (
            "sets the environment that commands run in",
            r"\.env(?:\..+)?|\.envrc|\.(?:bash|zsh)(?:rc|env|_env|_profile)|\.profile",
        ),
        (
            "configures a linter",
            r"mypy\.ini|\.mypy\.ini|\.?ruff\.toml|\.flake8|\.?pylintrc(?:\.toml)?|pyrightconfig\.json|\.eslintrc.*"
            r"|eslint\.config\..+|\.eslintignore|biome\.jsonc?|\.golangci\..+|\.rubocop.*\.yml|phpstan.*\.neon.*",
        ),
        ("configures prove", r"\.proverc"),
    )
)
_PATHS: Sequence[tuple[str, re.Pattern[str]]] = (
    ("configures cargo", re.compile(r"(?:.*/)?\.cargo/config(?:\.toml)?")),
    ("is a part of the package manager", re.compile(r"(?:.*/)?\.(?:yarn|mvn|bundle)/.+")),
    ("is a part of the build that runs the tests", re.compile(r"(?:.*/)?(?:gradle/wrapper|buildsrc|build-logic)/.+")),
)
_ONLY_SAFE = re.compile(r"\.env\.(?:example|sample|template|dist)")
_SCRIPT_NAMES = frozenset({"tasks.py", "bootstrap.php", "project.json", "build", "workspace"})
"""Names that are often others' as well, and so count in the top folder alone."""


def _by_name(path: str) -> str | None:
    plain = path.casefold()
    name = plain.rpartition("/")[2]
    if _ONLY_SAFE.fullmatch(name) or (name in _SCRIPT_NAMES and "/" in path):
        return None
    for reason, pattern in _NAMES:
        if pattern.fullmatch(name):
            return reason
    return next((reason for reason, pattern in _PATHS if pattern.fullmatch(plain)), None)


# What shows only by what is in it

_SETUP_POWERS = re.compile(r"pytest11|cmdclass|data_files|sitecustomize|\.pth\b|subprocess|os\.system|urlopen|exec\(")
_DJANGO_RUNNER = re.compile(r"^[ \t]*TEST_RUNNER[ \t]*=.*$", re.MULTILINE)
_PROJECT_BUILD = re.compile(r"<(?:Target|Exec|UsingTask|Import|VSTest\w*|IsTestProject|RunSettings\w*)\b[^>]*>")
_ORIGIN = re.compile(
    r"""\b(?:resolved|tarball|url|git|source|remote|registry)\b["']?"""
    r"""[ \t]*+[:=]?+[ \t]*+["'{]*+[ \t]*+(?:url = ["'])?"""
    r"""((?:(?:git|registry|sparse)\+)?(?:https?|ssh|git|file)://?[^\s"'/]*|file:|link:|git@[^\s:"']+)"""
)
_LOCKS = re.compile(
    r"package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lock|uv\.lock|poetry\.lock|pdm\.lock"
    r"|pipfile\.lock|cargo\.lock|gemfile\.lock|composer\.lock|go\.sum"
)


def _by_content(path: str, before: bytes | None, after: bytes | None) -> str | None:
    name = path.rpartition("/")[2].casefold()
    old, new = (_decoded(version) for version in (before, after))
    if name == "setup.py":
        return _told(_SETUP_POWERS, old, new, "runs commands or adds plugins when it is installed")
    if name.endswith((".csproj", ".fsproj", ".vbproj")):
        return _told(_PROJECT_BUILD, old, new, "is a part of the build that runs the tests")
    if name.endswith(".py") and "TEST_RUNNER" in old + new:
        return _told(_DJANGO_RUNNER, old, new, "chooses the test runner")
    if _LOCKS.fullmatch(name) and before is not None and after is not None:
        if {found[1] for found in _ORIGIN.finditer(new)} - {found[1] for found in _ORIGIN.finditer(old)}:
            return "takes packages from where base's takes none"
        if _sums(new).items() and any(_sums(old).get(key, sum_) != sum_ for key, sum_ in _sums(new).items()):
            return "gives a package that base has already another checksum"
    return None


def _told(pattern: re.Pattern[str], old: str, new: str, reason: str) -> str | None:
    """The reason, if what the pattern finds is not the same in both."""
    first, second = ([found[0].strip() for found in pattern.finditer(text)] for text in (old, new))
    return reason if first != second else None


_GO_SUM = re.compile(r"^(\S+ \S+) (h1:\S+)$", re.MULTILINE)
_CARGO_SUM = re.compile(
    r'^name = "([^"]+)"\nversion = "([^"]+)"\nsource = "[^"]+"\nchecksum = "([^"]+)"$', re.MULTILINE
)
_NPM_SUM = re.compile(
    r'"([^"\n]+)": \{\n\s+(?:"name": "[^"\n]*",\n\s+)?"version": "([^"\n]+)",\n\s+"resolved": "[^"\n]*",'
    r'\n\s+"integrity": "([^"\n]+)"'
)


def _sums(text: str) -> dict[str, str]:
    """Checksums of packages, each by name and version."""
    sums = {found[1]: found[2] for found in _GO_SUM.finditer(text)}
    for pattern in (_CARGO_SUM, _NPM_SUM):
        sums |= {f"{found[1]} {found[2]}": found[3] for found in pattern.finditer(text)}
    return sums


def _decoded(content: bytes | None) -> str:
    return (content or b"").replace(b"\r\n", b"\n").decode("utf-8", "replace")


def _plain(text: str) -> str:
    """A name out of a file as words of ours."""
    visible = "".join(c if c.isprintable() and c != "`" else "?" for c in text)
    return visible if len(visible) <= 60 else f"{visible[:60]}…"


# What commands name

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_INTERPRETERS = re.compile(r"(?:python|pypy)[\d.]*|node|nodejs|ruby|perl|php|tsx|ts-node|bun|deno|lua|Rscript")
_WRAPPERS = frozenset(
    {
        *(
            "env",
            "time",
            "timeout",
            "nice",
            "exec",
            "command",
            "sudo",
            "xvfb-run",
            "run",
            "uv",
            "poetry",
            "pipenv",
            "pdm",
        ),
        *(
            "hatch",
            "bundle",
            "npx",
            "pnpm",
            "yarn",
            "coverage",
            "dotenv",
            "cross-env",
            "then",
            "else",
            "do",
            "if",
            "!",
        ),
    }
)
_CONFIG_OPTIONS = frozenset(
    {
        *(
            "--config",
            "-c",
            "--rcfile",
            "--require",
            "-r",
            "--import",
            "--loader",
            "--experimental-loader",
            "--reporter",
        ),
        *(
            "--test-reporter",
            "--setup-file",
            "--file",
            "-f",
            "--env-file",
            "--globalSetup",
            "--configuration",
            "--opts",
        ),
        *("--config-file", "--bootstrap", "--settings", "--package", "--project", "--makefile"),
    }
)
_INSTALLED = _PYTHON_RUNNERS | sys.stdlib_module_names
_LOOKS_LIKE_RUN = re.compile(
    r"(?i)test|check|spec|verif|suite|lint|(?:^|[/_.-])(?:ci|run|scripts?|tools?|hack|bin)(?:[/_.-]|$)"
)
_TASK = re.compile(r"(?i)test|check|spec|verif|lint|cover|unit|(?:^|[:_-])ci(?:$|[:_-])")
_READ = ("package.json", "composer.json", "Makefile", "makefile", "GNUmakefile", "tox.ini", "justfile")
"""Files that say in turn which commands are run."""


def named(checks: Sequence[Check], texts: Mapping[str, bytes] | None = None) -> frozenset[str]:
    """Paths that the checks' commands run or are configured by; a folder that they go to ends in a slash. `texts` are
    contents of base by path: what the files at `sources` run in turn is found there."""
    found = {path for check in checks for path in _in_line(check.run, "", strict=False)}
    for source in sources(checks):
        if content := (texts or {}).get(source):
            folder = source.rpartition("/")[0]
            for line in _run_by(source, content[:TEXT_LIMIT].decode("utf-8", "replace")):
                found.update(_in_line(line, folder if source.endswith(_READ) else "", strict=True))
    return frozenset(found)


def sources(checks: Sequence[Check]) -> tuple[str, ...]:
    """The paths whose contents on base `named` can make use of."""
    found = {path for check in checks for path in _in_line(check.run, "", strict=False)}
    folders = ["", *sorted(path for path in found if path.endswith("/"))]
    scripts = sorted(path for path in found if not path.endswith("/"))
    return (*scripts, *(f"{folder}{name}" for folder in folders for name in _READ))


def _run_by(path: str, text: str) -> Iterator[str]:
    """The command lines in a file."""
    name = path.rpartition("/")[2]
    if name in ("package.json", "composer.json"):
        for task, line in manifests.scripts(text).items():
            if _TASK.search(task):
                yield line
    elif name.lower().endswith(("makefile", "justfile", ".mk")):
        is_task = False
        for line in text.replace("\\\n", " ").split("\n"):
            if line.startswith(("\t", "    ")):
                if is_task:
                    yield line.strip().lstrip("@-+")
            elif line.strip():
                is_task = _TASK.search(line.split(":")[0]) is not None
    else:
        yield from text.replace("\\\n", " ").split("\n")


def _in_line(line: str, folder: str, *, strict: bool) -> Iterator[str]:
    """Paths in a shell line. `strict`: only such as look like a part of testing, where that is not sure otherwise."""
    for words in _commands(line[:20_000]):
        if words[0] in ("cd", "pushd") and len(words) > 1:
            if (target := _joined(folder, words[1])) is not None:
                folder = target
                yield f"{folder}/"
            continue
        for path, is_sure in _in_command(words):
            whole = _joined(folder, path)
            if whole and (_LOOKS_LIKE_RUN.search(whole) or (is_sure and not strict)):
                yield whole


def _commands(line: str) -> Iterator[list[str]]:
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()<>\n")
        lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, "#"
        tokens = list(lexer)
    except ValueError:
        tokens = re.findall(r"[;&|()<>\n]+|[^\s;&|()<>]+", line)
    words = list[str]()
    for token in [*tokens, ";"]:
        if token and not set(token) <= set(";&|()<>\n"):
            words.append(token)
        elif words:
            yield words
            words = []


def _in_command(words: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Paths in one command, and whether it is sure that they are run or read before the tests."""
    at = 0
    while at < len(words) and (words[at] in _WRAPPERS or "=" in words[at].split("/")[0] or _is_number(words[at])):
        variable, _, value = words[at].partition("=")
        if variable in ("PYTHONPATH", "NODE_PATH", "PATH", "RUBYLIB", "PERL5LIB"):
            yield from ((f"{piece}/", True) for piece in value.split(":") if piece and "$" not in piece)
        at += 1
    if at == len(words):
        return
    program, arguments = words[at], words[at + 1 :]
    name = program.rpartition("/")[2]
    positional = (word for before, word in pairwise(["", *arguments]) if before not in _CONFIG_OPTIONS)
    first = next((word for word in positional if not word.startswith("-")), None)
    if "/" in program or program.endswith((".sh", ".bash")):
        yield program, True
    if name in _SHELLS or program in (".", "source"):
        if "-c" in arguments[:-1]:
            for inner in _commands(arguments[arguments.index("-c") + 1]):
                yield from ((path, False) for path, _ in _in_command(inner))
        elif first:
            yield first, True
    elif _INTERPRETERS.fullmatch(name):
        if "-m" in arguments[:-1]:
            module = arguments[arguments.index("-m") + 1].replace(".", "/")
            ends = (".py", "/__main__.py", "/__init__.py") if module.partition("/")[0] not in _INSTALLED else ()
            yield from ((f"{module}{end}", False) for end in ends)
        elif first:
            yield first, False
    takes_code = name in _SHELLS or (_INTERPRETERS.fullmatch(name) is not None and "-m" not in arguments)
    for word, after in pairwise([*arguments, ""]):
        option, equals, value = word.partition("=")
        if option in _CONFIG_OPTIONS and not (option == "-c" and takes_code):
            yield value if equals else after, True
        elif option == "-p":
            yield f"{after.replace('.', '/')}.py", True


def _is_number(word: str) -> bool:
    return re.fullmatch(r"[\d.]+[smh]?", word) is not None


def _joined(folder: str, path: str) -> str | None:
    """A path seen from a folder, from the top; None for one that leads out or is none."""
    if not path or path.startswith(("/", "~", "-")) or "$" in path:
        return None
    parts = folder.split("/") if folder else []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts) + ("/" if path.endswith("/") and parts else "")
