"""JavaScript's and TypeScript's tools."""

from __future__ import annotations

from collections.abc import Sequence, Set

from bot.domain.presets.preset import Preset, first, names, paths, presets

_NODE = ("", "npx", "npx --no-install", "npx --no", "pnpm exec", "yarn exec")
_PACKAGES = names(r"[A-Za-z0-9@][A-Za-z0-9_./@-]*")
_SCRIPT = first(r"[A-Za-z0-9_][A-Za-z0-9_:./-]*", "a script's name")

_NPM = "-s --silent --if-present --workspaces -w= --workspace="
_TESTS = (
    "-t=* --testNamePattern=* --grep=* --bail --verbose --silent --ci --run --runInBand --no-coverage "
    "--watch=false --watchAll=false --passWithNoTests"
)
_AFTER = f"{_TESTS} -g=* -i"


def _files(words: Sequence[str], used: Set[str]) -> str | None:
    """tsc takes `false` after any switch, which turns it off."""
    value = next((word for word in words if word.lower() in ("true", "false", "null")), None)
    return f"A switch can't be set to `{value}`." if value is not None else paths(words, used)


def _file(words: Sequence[str], used: Set[str]) -> str | None:
    """`node inspect` listens on a port and waits; `node -` reads what nobody writes."""
    if words and words[0] in ("inspect", "debug", "-"):
        return f"`{words[0]}` waits for input."
    return paths(words, used)


PRESETS: tuple[Preset, ...] = (
    *presets("node", "npm test", _NPM, after=_AFTER, style="apart", starts_script=True),
    *presets("node", "npm run", _NPM, _SCRIPT, after=_AFTER, style="apart", starts_script=True),
    *presets("node", "pnpm test, yarn test", _TESTS, after=_AFTER, style="apart", starts_script=True),
    *presets("node", "pnpm run, yarn run", _TESTS, _SCRIPT, after=_AFTER, style="apart", starts_script=True),
    *presets(
        "node",
        "npm ls, pnpm ls, pnpm list",
        "--all -a --json --prod --dev --depth=* --long -l",
        _PACKAGES,
        style="apart",
    ),
    *presets(
        "node",
        "node",
        "--test --test-only --check -c --no-warnings --trace-warnings --enable-source-maps --test-name-pattern=* "
        "--test-skip-pattern=* --test-reporter=spec|tap|dot --test-concurrency=* --test-timeout=* "
        "--test-force-exit --experimental-vm-modules --experimental-strip-types --version -v",
        _file,
        style="apart",
    ),
    *presets(
        "node",
        "tsc",
        "--noEmit --pretty -p= --project= --strict --skipLibCheck --listFiles --listFilesOnly --showConfig "
        "--traceResolution --version -v",
        _files,
        via=_NODE,
        needs="--noEmit --listFilesOnly --showConfig --version -v",
        style="apart",
        reads_at_files=True,
    ),
    *presets(
        "node",
        "eslint",
        "--quiet --no-color --color --max-warnings=* --ext=* --no-inline-config --report-unused-disable-directives "
        "--no-error-on-unmatched-pattern -f=stylish|json|compact|unix --format=stylish|json|compact|unix --version "
        "-v",
        via=_NODE,
        style="apart",
    ),
    *presets(
        "node",
        "jest",
        f"{_AFTER} -b --colors --no-cache --json --listTests --onlyChanged -o --findRelatedTests --forceExit "
        "--detectOpenHandles --expand --testPathPattern=* --testPathPatterns=* --testTimeout=* --maxWorkers=* -w=*",
        via=_NODE,
        style="apart",
    ),
    *presets(
        "node",
        "vitest run, vitest list",
        "-t=* --testNamePattern=* --bail=* --passWithNoTests --silent --no-color --project=* "
        "--reporter=default|basic|verbose|dot|tap|json --testTimeout=* --dir=",
        via=_NODE,
        style="apart",
    ),
)
