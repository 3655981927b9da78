"""Manifests taken apart: what in them decides how tests run, and what only says which packages the code needs."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

LIMIT = 256 * 1024
"""Bytes of a manifest; a longer one is not taken apart."""

Parts: TypeAlias = dict[str, Any]
"""The deciding parts of a manifest, by the names that people know them by."""

RUNNERS: frozenset[str] = frozenset(
    {
        *(
            "pytest",
            "pluggy",
            "iniconfig",
            "coverage",
            "tox",
            "nox",
            "nose",
            "nose2",
            "hypothesis",
            "unittest2",
            "mock",
        ),
        *(
            "jest",
            "vitest",
            "mocha",
            "ava",
            "tap",
            "tape",
            "jasmine",
            "karma",
            "nyc",
            "c8",
            "chai",
            "sinon",
            "expect",
        ),
        *(
            "ts-jest",
            "babel-jest",
            "cypress",
            "playwright",
            "qunit",
            "uvu",
            "typescript",
            "tsx",
            "ts-node",
            "esbuild",
        ),
        *("npm", "yarn", "pnpm", "node", "cross-env", "npm-run-all", "rspec", "minitest", "test-unit", "rake"),
        *("rstest", "proptest", "quickcheck", "insta", "trybuild", "test-case", "criterion", "phpunit", "pest"),
    }
)
"""Packages that run tests or judge in them."""
_RUNNER_FAMILIES = re.compile(
    r"@?(?:jest|vitest|playwright|testing-library|mocha|swc|babel|rspec|phpunit)[/-].+|(?:pytest|rspec|jest|coverage)[-_].+"
)


def is_runner(package: str) -> bool:
    """Whether a package by this name runs tests or judges in them."""
    plain = package.strip().lower()
    return plain in RUNNERS or _RUNNER_FAMILIES.fullmatch(plain) is not None


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """How one kind of manifest is taken apart. Each function may raise ValueError for what it can't read."""

    deciding: Callable[[str], Parts]
    kept: Callable[[str], Any]
    """What of the candidate has to be left by a merge."""
    merge: Callable[[str, str], str]
    """Of base's text and the candidate's, one that has base's deciding parts."""


def is_known(path: str) -> bool:
    """Whether a file of this name is taken apart; any other one decides as a whole or not at all."""
    return _kind(path) is not None


def differing(path: str, before: bytes | None, after: bytes | None) -> tuple[str, ...]:
    """The names of the deciding parts that differ between two versions of a manifest (None: there is none). One that
    can't be read differs as a whole, which is named by an empty string."""
    kind = _kind(path)
    assert kind is not None
    try:
        old, new = (kind.deciding(_text(version)) if version is not None else {} for version in (before, after))
    except _UNREADABLE:
        return ("",) if before != after else ()
    return tuple(sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name)))


def merged(path: str, before: bytes, after: bytes) -> bytes | None:
    """The candidate's manifest with base's deciding parts; None where no such file can be made."""
    kind = _kind(path)
    assert kind is not None
    try:
        old, new = _text(before), _text(after)
        made = kind.merge(old, new)
        if kind.deciding(made) == kind.deciding(old) and kind.kept(made) == kind.kept(new):
            return made.encode()
    except _UNREADABLE:
        pass
    return None


_UNREADABLE = (ValueError, RecursionError, configparser.Error)


def _text(content: bytes) -> str:
    if len(content) > LIMIT:
        raise ValueError("too long")
    return content.decode("utf-8-sig")


def _get(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _table(value: Any, *keys: str) -> dict[str, Any]:
    found = _get(value, *keys)
    return found if isinstance(found, dict) else {}


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


# package.json

_NODE_KEYS = (
    *("jest", "mocha", "ava", "tap", "nyc", "c8", "vitest", "babel", "jest-junit", "config", "type", "bin"),
    *("workspaces", "packageManager", "devEngines", "volta", "overrides", "resolutions", "pnpm", "wireit", "nx"),
)
_NODE_TABLES = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
_PLAIN_RANGE = re.compile(r"[\w\s.*^~<>=|+-]*")


def _node_deciding(text: str) -> Parts:
    package = _object(text)
    scripts = _get(package, "scripts")
    parts: Parts = {key: package[key] for key in _NODE_KEYS if key in package}
    if isinstance(scripts, dict):
        parts |= {f"scripts.{name}": line for name, line in scripts.items()}
    for table in _NODE_TABLES:
        for name, spec in _table(package, table).items():
            if is_runner(name) and not (isinstance(spec, str) and _PLAIN_RANGE.fullmatch(spec)):
                parts[f"{table}.{name}"] = spec
    return parts


def _node_kept(text: str) -> Any:
    package = _object(text)
    return [
        {name: spec for name, spec in _table(package, table).items() if not is_runner(name)} for table in _NODE_TABLES
    ]


def _node_merge(before: str, after: str) -> str:
    old, new = _object(before), _object(after)
    for key in ("scripts", *_NODE_KEYS):
        new.pop(key, None)
        if key in old:
            new[key] = old[key]
    for part in _node_deciding(after):
        table, _, name = part.partition(".")
        if table in _NODE_TABLES:
            del new[table][name]
            if name in _table(old, table):
                new[table][name] = old[table][name]
    return json.dumps(new, indent=2, ensure_ascii=False) + "\n"


# composer.json

_COMPOSER_KEYS = ("scripts", "config", "repositories", "bin", "extra")


def _composer_deciding(text: str) -> Parts:
    package = _object(text)
    parts: Parts = {key: package[key] for key in _COMPOSER_KEYS if key in package}
    for key in ("autoload", "autoload-dev"):
        if files := _get(package, key, "files"):
            parts[f"{key}.files"] = files
    return parts


def _composer_kept(text: str) -> Any:
    package = _object(text)
    return [package.get(key) for key in ("require", "require-dev")]


def _composer_merge(before: str, after: str) -> str:
    old, new = _object(before), _object(after)
    for key in (*_COMPOSER_KEYS, "autoload", "autoload-dev"):
        new.pop(key, None)
        if key in old:
            new[key] = old[key]
    return json.dumps(new, indent=4, ensure_ascii=False) + "\n"


# Files of sections: TOML, and INI as setup.cfg has it

_HEADER = re.compile(r"^[ \t]*(\[\[?[^\n]*\]\]?)[ \t]*(?:#[^\n]*)?$", re.MULTILINE)


def _sections(text: str) -> list[tuple[str, str]]:
    """The text in pieces, each with its header; the first one has none."""
    starts = [(found.start(), found[1]) for found in _HEADER.finditer(text)]
    edges = [0, *(start for start, _ in starts), len(text)]
    headers = ["", *(header for _, header in starts)]
    return [(header, text[edges[at] : edges[at + 1]]) for at, header in enumerate(headers)]


def _sections_merged(before: str, after: str, decides: Callable[[str], bool]) -> str:
    kept = [piece for header, piece in _sections(after) if not decides(header)]
    put = [piece for header, piece in _sections(before) if decides(header)]
    return "".join(piece if piece.endswith("\n") or not piece else f"{piece}\n" for piece in (*kept, *put))


def _toml_path(header: str) -> tuple[str, ...]:
    """The names in `[a."b"]` or `[[a]]`."""
    names, value = [], tomllib.loads(header) if header else {}
    while isinstance(value, dict) and value:
        name = next(iter(value))
        names.append(name)
        value = value[name]
        value = value[0] if isinstance(value, list) else value
    return tuple(names)


_PYTHON_TOOLS = (
    *("pytest", "coverage", "tox", "hatch", "pdm", "poe", "nox", "taskipy", "nose", "mutmut", "cibuildwheel", "pixi"),
    *("mypy", "pyright", "ruff", "pylint", "flake8", "basedpyright"),
)
_PYTHON_PATHS = (
    *((("tool", name)) for name in _PYTHON_TOOLS),
    ("build-system",),
    ("project", "entry-points"),
    ("project", "scripts"),
    ("tool", "poetry", "plugins"),
    ("tool", "poetry", "scripts"),
    ("tool", "setuptools", "data-files"),
    ("tool", "setuptools", "cmdclass"),
    ("tool", "uv", "index"),
)
_OTHER_SOURCE = re.compile(r"\s*([\w.-]+)\s*(?:\[[^\]]*\])?\s*@")


def _python_deciding(text: str) -> Parts:
    project = tomllib.loads(text)
    parts: Parts = {}
    for path in _PYTHON_PATHS:
        if (value := _get(project, *path)) is not None:
            parts[".".join(path)] = value
    if "project.scripts" in parts and not any(map(is_runner, _names(parts["project.scripts"]))):
        del parts["project.scripts"]
    if "tool.poetry.scripts" in parts and not any(map(is_runner, _names(parts["tool.poetry.scripts"]))):
        del parts["tool.poetry.scripts"]
    for line in _requirements(project):
        if (found := _OTHER_SOURCE.match(line)) and is_runner(found[1]):
            parts[f"the source of {found[1]}"] = line
    for name, source in (*_table(project, "tool", "uv", "sources").items(), *_poetry(project)):
        if is_runner(name) and not isinstance(source, str):
            parts[f"the source of {name}"] = source
    return parts


def _names(value: Any) -> Iterable[str]:
    return [re.sub(r"[.\d]+$", "", name) for name in value] if isinstance(value, dict) else ()


def _requirements(project: Mapping[str, Any]) -> list[str]:
    lists = [
        _get(project, "project", "dependencies"),
        *_table(project, "project", "optional-dependencies").values(),
        *_table(project, "dependency-groups").values(),
    ]
    return [line for lines in lists if isinstance(lines, list) for line in lines if isinstance(line, str)]


def _poetry(project: Mapping[str, Any]) -> list[tuple[str, Any]]:
    poetry = _table(project, "tool", "poetry")
    tables = [_table(poetry, "dependencies"), _table(poetry, "dev-dependencies")]
    tables += [_table(group, "dependencies") for group in _table(poetry, "group").values()]
    return [
        (name, spec)
        for table in tables
        for name, spec in table.items()
        if not (isinstance(spec, dict) and not {"path", "git", "url", "file"} & spec.keys())
    ]


def _python_kept(text: str) -> Any:
    project = tomllib.loads(text)
    return sorted(_requirements(project)), sorted(map(repr, _poetry(project)))


def _python_merge(before: str, after: str) -> str:
    def decides(header: str) -> bool:
        return any(_toml_path(header)[: len(path)] == path for path in _PYTHON_PATHS)

    return _sections_merged(before, after, decides)


# Cargo.toml

_CARGO_WHOLE = ("test", "profile", "patch", "replace", "lints")
_CARGO_PACKAGE = ("autotests", "autobins", "build", "links", "metadata")
_CARGO_TARGET = ("name", "test", "doctest", "harness")
_CARGO_TABLES = ("dependencies", "dev-dependencies", "build-dependencies")


def _cargo_deciding(text: str) -> Parts:
    manifest = tomllib.loads(text)
    parts: Parts = {key: manifest[key] for key in _CARGO_WHOLE if key in manifest}
    package = _table(manifest, "package")
    parts |= {f"package.{key}": package[key] for key in _CARGO_PACKAGE if key in package}
    parts |= {f"workspace.{k}": v for k, v in _table(manifest, "workspace").items() if k in ("members", "exclude")}
    bins = manifest.get("bin")
    for name, target in [("lib", manifest.get("lib")), *(("bin", each) for each in _list(bins))]:
        said = {key: target[key] for key in _CARGO_TARGET if key in target} if isinstance(target, dict) else {}
        if said.keys() - {"name"}:
            parts[name] = [*parts.get(name, []), said]
    for table in _CARGO_TABLES:
        for name, spec in _table(manifest, table).items():
            if is_runner(name) and isinstance(spec, dict) and {"path", "git", "package", "registry"} & spec.keys():
                parts[f"the source of {name}"] = spec
    return parts


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _cargo_kept(text: str) -> Any:
    manifest = tomllib.loads(text)
    return [manifest.get(key) for key in (*_CARGO_TABLES, "features", "target")]


def _cargo_merge(before: str, after: str) -> str:
    def decides(header: str) -> bool:
        path = _toml_path(header)
        return path[:1] in {(key,) for key in (*_CARGO_WHOLE, "lib", "bin", "workspace")} or path[:2] == (
            "package",
            "metadata",
        )

    return _sections_merged(before, after, decides)


# setup.cfg

_INI_SECTION = re.compile(
    r"(?:tool:)?pytest|coverage(?::.*)?|aliases|nosetests|tox.*|testenv.*|mypy.*|flake8|pylint.*|options\.data_files"
)


def _ini(text: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    parser.read_string(text)
    return parser


def _ini_deciding(text: str) -> Parts:
    parser = _ini(text)
    parts: Parts = {name: dict(parser[name]) for name in parser.sections() if _INI_SECTION.fullmatch(name)}
    if parser.has_section("options.entry_points"):
        for key, value in parser["options.entry_points"].items():
            if key == "pytest11" or any(is_runner(line.split("=")[0]) for line in (value or "").splitlines()):
                parts[f"options.entry_points.{key}"] = value
    if parser.has_option("options", "cmdclass"):
        parts["options.cmdclass"] = parser.get("options", "cmdclass")
    return parts


def _ini_kept(text: str) -> Any:
    parser = _ini(text)
    return {name: dict(parser[name]) for name in parser.sections() if name in ("options", "options.extras_require")}


def _ini_merge(before: str, after: str) -> str:
    return _sections_merged(before, after, lambda header: _INI_SECTION.fullmatch(header.strip("[]")) is not None)


# Manifests of lines

_GO_DECIDES = re.compile(r"(?:replace|toolchain|exclude|tool|ignore|godebug)\b")


def _go_lines(text: str) -> list[tuple[bool, str]]:
    """Each line, and whether it belongs to a directive that decides."""
    lines, block = [], ""
    for line in text.splitlines():
        word = line.split("//")[0].strip()
        inside = block or word
        lines.append((_GO_DECIDES.match(inside) is not None, line))
        if word.endswith("("):
            block = word
        elif word == ")":
            block = ""
    return lines


_OPTION_LINE = re.compile(r"\s*(?:-(?!r\b|c\b|-requirement\b|-constraint\b|-hash\b)|\.{0,2}/|file:)")


def _pip_lines(text: str) -> list[tuple[bool, str]]:
    return [
        (
            _OPTION_LINE.match(line) is not None
            or ((found := _OTHER_SOURCE.match(line)) is not None and is_runner(found[1])),
            line,
        )
        for line in text.splitlines()
    ]


_GEM = re.compile(r"\s*gem[ (]+['\"]([\w-]+)['\"](.*)")
_GEM_PLAIN = re.compile(r"\s*(?:#.*|source\b.*|group\b.*|end|gemspec|ruby\b.*)?")


def _gem_lines(text: str) -> list[tuple[bool, str]]:
    """Whatever is neither a gem nor a group of gems is Ruby that runs."""
    lines = []
    for line in text.splitlines():
        found = _GEM.fullmatch(line)
        moved = found is not None and re.search(r"\b(?:path|git|github|source)\b", found[2]) is not None
        decides = (moved and is_runner(found[1])) if found else _GEM_PLAIN.fullmatch(line) is None
        lines.append((decides or line.strip().startswith("source"), line))
    return lines


_MAKE_LIST = re.compile(
    r"(?:\w*(?:SRC|SRCS|SOURCES|OBJ|OBJS|OBJECTS|HDRS|HEADERS|LDLIBS|LIBS))[ \t]*[:+]?=[ \t\w./*%+-]*"
    r"|[\w./-]+\.o[ \t]*:[ \t\w./-]*|#.*|\s*"
)


def _make_lines(text: str) -> list[tuple[bool, str]]:
    """Plain lists of files and their dependencies decide nothing."""
    return [(_MAKE_LIST.fullmatch(line) is None, line) for line in text.replace("\\\n", " ").split("\n")]


_CMAKE = re.compile(r"(?i)\s*(?:add_test|enable_testing|set_tests_properties|include|find_program|execute_process)\b")


def _cmake_lines(text: str) -> list[tuple[bool, str]]:
    return [(_CMAKE.match(line) is not None or "ctest" in line.lower(), line) for line in text.splitlines()]


def _by_lines(lines: Callable[[str], list[tuple[bool, str]]], what: str) -> _Kind:
    """A manifest whose lines decide or don't. Their order among themselves counts."""

    def deciding(text: str) -> Parts:
        found = [line.strip() for decides, line in lines(text) if decides]
        return {what: found} if found else {}

    def kept(text: str) -> Any:
        return [line.strip() for decides, line in lines(text) if not decides and line.strip()]

    def merge(before: str, after: str) -> str:
        chosen = [line for decides, line in lines(after) if not decides]
        chosen += [line for decides, line in lines(before) if decides]
        return "\n".join(chosen) + "\n"

    return _Kind(deciding=deciding, kept=kept, merge=merge)


def _make_merge(before: str, after: str) -> str:
    """Base's lines in base's order, but for the lists that the candidate has by the same name."""
    lists = {_list_name(line): line for decides, line in _make_lines(after) if not decides and line.strip()}
    return "\n".join(line if decides else lists.get(_list_name(line), line) for decides, line in _make_lines(before))


def _list_name(line: str) -> str:
    return re.split(r"[:+=#]", line)[0].strip()


# Build files with blocks

_POM_OPEN = re.compile(r"<(build|profiles|reporting)>")
_POM_SWITCH = re.compile(r"<((?:skip|maven\.test|surefire|failsafe|test|argLine)[\w.-]*)>\s*([^<]*)<|<systemPath>")


def _pom_pieces(text: str) -> list[tuple[bool, str]]:
    """The text in pieces, and whether each is a block that decides."""
    pieces, at = [], 0
    while found := _POM_OPEN.search(text, at):
        close = text.find(f"</{found[1]}>", found.end())
        if close < 0:
            raise ValueError("a block without an end")
        end = close + len(found[0]) + 1
        pieces += [(False, text[at : found.start()]), (True, text[found.start() : end])]
        at = end
    return [*pieces, (False, text[at:])]


def _pom_deciding(text: str) -> Parts:
    pieces = _pom_pieces(text)
    blocks = [" ".join(piece.split()) for decides, piece in pieces if decides]
    switches = [found[0] for decides, piece in pieces if not decides for found in _POM_SWITCH.finditer(piece)]
    return ({"build": blocks} if blocks else {}) | ({"properties": switches} if switches else {})


def _pom_merge(before: str, after: str) -> str:
    put = [piece for decides, piece in _pom_pieces(before) if decides]
    pieces = _pom_pieces(after)
    if len(put) != sum(decides for decides, _ in pieces):
        raise ValueError("blocks that come or go")
    return "".join(put.pop(0) if decides else piece for decides, piece in pieces)


def _pom_kept(text: str) -> Any:
    return " ".join("".join(piece for decides, piece in _pom_pieces(text) if not decides).split())


_GRADLE_DEPENDENCIES = re.compile(r"^dependencies\s*\{", re.MULTILINE)
_GRADLE_PLAIN = re.compile(
    r"\s*(?:\w*(?:[iI]mplementation|[aA]pi|[oO]nly|[pP]rocessor|kapt|ksp)[ (]+['\"][\w.:${}+@-]+['\"]\)?|//.*)?\s*"
)


def _gradle_split(text: str) -> tuple[str, str, str]:
    """What is before, in and after the block of plain dependencies."""
    found = _GRADLE_DEPENDENCIES.search(text)
    end = text.find("\n}", found.end()) if found else -1
    if found is None or end < 0:
        return text, "", ""
    inside = text[found.end() : end]
    if not all(_GRADLE_PLAIN.fullmatch(line) for line in inside.split("\n")):
        return text, "", ""
    return text[: found.end()], inside, text[end:]


def _gradle_deciding(text: str) -> Parts:
    head, _, tail = _gradle_split(text)
    return {"the build": [line.strip() for line in f"{head}{tail}".splitlines() if line.strip()]}


def _gradle_merge(before: str, after: str) -> str:
    (head, _, tail), (_, inside, _) = _gradle_split(before), _gradle_split(after)
    return f"{head}{inside}{tail}"


_NODE = _Kind(deciding=_node_deciding, kept=_node_kept, merge=_node_merge)
_MAKE = _by_lines(_make_lines, "rules")
_KINDS: Sequence[tuple[re.Pattern[str], _Kind]] = (
    (re.compile(r"package\.json"), _NODE),
    (re.compile(r"composer\.json"), _Kind(deciding=_composer_deciding, kept=_composer_kept, merge=_composer_merge)),
    (re.compile(r"pyproject\.toml"), _Kind(deciding=_python_deciding, kept=_python_kept, merge=_python_merge)),
    (re.compile(r"cargo\.toml"), _Kind(deciding=_cargo_deciding, kept=_cargo_kept, merge=_cargo_merge)),
    (re.compile(r"setup\.cfg"), _Kind(deciding=_ini_deciding, kept=_ini_kept, merge=_ini_merge)),
    (re.compile(r"go\.mod"), _by_lines(_go_lines, "replace, exclude or toolchain")),
    (re.compile(r"[\w.-]*(?:requirements|constraints)[\w.-]*\.(?:txt|in)"), _by_lines(_pip_lines, "sources")),
    (re.compile(r"gemfile"), _by_lines(_gem_lines, "sources")),
    (
        re.compile(r"(?:gnu)?makefile(?:\.[a-z]+)?|.*\.mk"),
        _Kind(deciding=_MAKE.deciding, kept=lambda text: None, merge=_make_merge),
    ),
    (re.compile(r"cmakelists\.txt"), _by_lines(_cmake_lines, "tests")),
    (re.compile(r"pom\.xml"), _Kind(deciding=_pom_deciding, kept=_pom_kept, merge=_pom_merge)),
    (
        re.compile(r"build\.gradle(?:\.kts)?"),
        _Kind(deciding=_gradle_deciding, kept=lambda text: _gradle_split(text)[1], merge=_gradle_merge),
    ),
)


def _kind(path: str) -> _Kind | None:
    name = path.rpartition("/")[2].casefold()
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(name)), None)


def scripts(text: str) -> dict[str, str]:
    """The commands in a package.json or a composer.json, by the names of their tasks."""
    try:
        found = _table(_object(text), "scripts")
    except _UNREADABLE:
        return {}
    return {
        name: "; ".join(line for line in (lines if isinstance(lines, list) else [lines]) if isinstance(line, str))
        for name, lines in found.items()
    }
