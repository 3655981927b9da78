"""The programs a model may run without a word from the repository, and what each of them may be told.

To add a program, add a line to the table at the end: how the command begins, its options, and what else it takes.

Options are written as one string:
    -q  --quiet       a flag
    -n=  --lines=     takes a value, glued or as the next word; as a path it must stay in the repository
    -e=*  --regexp=*  takes a value that is no path: a pattern, a name
    --tb=short|long   takes a value that matches this regular expression
    --color=?         may have a value, which is then glued to it
    -#                a number, as in `head -20`
An option that isn't there is refused. So nothing is listed that starts a program, writes a file of the caller's
choice, loads code or configuration, follows links out of the repository, waits for input, or reaches out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from bot.domain.paths import leads_out

Rest = Callable[[Sequence[str], Set[str]], str | None]
"""Why a program may not have these words (those that are no options), given the options that are there; None if it
may."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """What may follow an option: a value, only glued to it, only inside the repository, only what is allowed."""

    takes_value: bool = False
    glued_only: bool = False
    is_path: bool = False
    allowed: re.Pattern[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Preset:
    """One way to begin a command, and what may follow. `name` is the same for all ways to start one tool."""

    ecosystem: str | None
    name: str
    words: tuple[str, ...]
    options: Mapping[str, Option]
    after: Mapping[str, Option]
    """Options after `--`, which are another program's."""
    rest: Rest
    needs: frozenset[str]
    """One of these options has to be there: without it the program would write."""
    long_by_one_dash: bool
    """`-name value`, as find and go have it: no clusters, nothing glued without `=`."""


def options(spec: str) -> dict[str, Option]:
    """Options as the table writes them."""
    return dict(_option(item) for item in spec.split())


def _option(item: str) -> tuple[str, Option]:
    name, equals, value = item.partition("=")
    if not equals:
        return name, Option()
    allowed = re.compile(value, re.DOTALL) if value not in ("", "*", "?") else None
    return name, Option(takes_value=True, glued_only=value == "?", is_path=value in ("", "?"), allowed=allowed)


def nothing(words: Sequence[str], used: Set[str]) -> str | None:
    return f"Nothing but options may follow, not `{words[0][:100]}`." if words else None


def paths(words: Sequence[str], used: Set[str]) -> str | None:
    for word in words:
        if word.startswith("@"):
            return f"`{word[:100]}` would be read as a file of further options."
        if leads_out(word):
            return f"`{word[:100]}` leads out of the repository."
    return None


def revisions(words: Sequence[str], used: Set[str]) -> str | None:
    """Git's revisions and paths; `@` is a revision."""
    return paths([word.lstrip("@") for word in words], used)


def pattern(words: Sequence[str], used: Set[str]) -> str | None:
    """A pattern, then paths; no pattern where an option gave it or none is asked for."""
    given = used & {"-e", "--regexp", "--files", "--type-list"}
    return paths(words if given else words[1:], used)


def names(allowed: str) -> Rest:
    """Words of which each matches."""

    def check(words: Sequence[str], used: Set[str]) -> str | None:
        wrong = [word for word in words if not re.fullmatch(allowed, word)]
        return f"`{wrong[0][:100]}` may not stand there." if wrong else paths(words, used)

    return check


def first(allowed: str, meaning: str) -> Rest:
    """One word that matches, then paths."""

    def check(words: Sequence[str], used: Set[str]) -> str | None:
        if not words or not re.fullmatch(allowed, words[0]):
            return f"The first word has to be {meaning}."
        return paths(words[1:], used)

    return check


_TARGETS = names(r"[A-Za-z0-9_.][A-Za-z0-9_./-]*")
_PACKAGES = names(r"[A-Za-z0-9@][A-Za-z0-9_./@-]*")
_SCRIPT = first(r"[A-Za-z0-9_][A-Za-z0-9_:./-]*", "a script's name")
_LINES = first(r"(?:\d{1,9}|\$)(?:,(?:\+?\d{1,9}|\$))?p", "a range of lines like `10,20p`")
_PHASES = names(r"validate|compile|test-compile|test|verify")
_TASKS = names(r"(?::[A-Za-z0-9_-]+)*:?(?:check|test|classes|testClasses|compile(?:Test)?(?:Java|Kotlin))")


def _presets(
    ecosystem: str | None,
    lines: str,
    spec: str = "",
    rest: Rest = paths,
    *,
    via: Sequence[str] = ("",),
    after: str = "",
    needs: str = "",
    long_by_one_dash: bool = False,
) -> Iterator[Preset]:
    """A preset for each of these beginnings and each way to come to it; the first way makes the name."""
    main, *_ = via
    for line in lines.split(", "):
        for prefix in via:
            yield Preset(
                ecosystem=ecosystem,
                name=f"{main} {line}".strip(),
                words=(*prefix.split(), *line.split()),
                options=options(spec),
                after=options(after),
                rest=rest,
                needs=frozenset(needs.split()),
                long_by_one_dash=long_by_one_dash,
            )


_PYTHON = ("", "python -m", "python3 -m", "uv run", "uv run python -m")
_PYTHON_M = ("python -m", "python3 -m", "uv run python -m")
_PIP = ("pip", "pip3", "python -m pip", "python3 -m pip", "uv pip")
_NODE = ("", "npx", "npx --no-install", "npx --no", "pnpm exec", "yarn exec")
_GIT = ("git", "git --no-pager")

_NPM = "-s --silent --if-present --workspaces -w= --workspace="
_SCRIPT_OPTIONS = (
    "-t=* --testNamePattern=* --grep=* -g=* --bail --verbose --silent --ci --run --runInBand -i --no-coverage "
    "--watch=false --watchAll=false --passWithNoTests"
)
_DIFF = (
    "-p -u --patch -s --no-patch --stat=? --numstat --shortstat --dirstat --summary --name-only --name-status --raw "
    "--cached --staged --merge-base -w -b --ignore-all-space --ignore-space-change --ignore-space-at-eol "
    "--ignore-blank-lines --no-color --color=? --word-diff=? -M=? -C=? -R --diff-filter=* -S=* -G=* "
    "--pickaxe-regex -U=* --unified=* --no-ext-diff --no-textconv --exit-code --quiet --check --minimal --patience "
    "--histogram --find-renames=? --no-renames --relative=? -z -W --function-context --no-prefix --text -a"
)
_LOG = (
    f"{_DIFF} -# -n=* --max-count=* --skip=* --oneline --graph --all --branches --tags --remotes --no-decorate "
    "--decorate=? --author=* --grep=* --since=* --until=* --after=* --before=* --follow -L=* --merges --no-merges "
    "--first-parent --reverse --abbrev-commit --no-abbrev-commit --date=* -i -E -F --full-history --left-right "
    # `%G…` runs the program that git's config names for signatures.
    r"--cherry-pick --no-notes --format=(?:[^%]|%[-+\x20]?[^-+\x20G])* --pretty=(?:[^%]|%[-+\x20]?[^-+\x20G])*"
)
_CARGO = (
    "--all --workspace --all-features --no-default-features --all-targets --release -r -q --quiet -v --verbose --lib "
    "--bins --tests --examples --doc --no-run --no-fail-fast --locked --offline --frozen --keep-going -p=* "
    "--package=* --exclude=* --features=* -F=* --test=* --bin=* --example=* -j=* --jobs=* --color=* "
    "--message-format=human|short|json"
)
_GO = (
    "-v -race -short -cover -failfast -json -benchmem -count=* -run=* -skip=* -bench=* -list=* -timeout=* "
    "-parallel=* "
    "-cpu=* -tags=* -shuffle=* -mod=readonly|vendor -vet=off -benchtime=* -trimpath -x -n -a -p=*"
)
_LIBTEST = (
    "--nocapture --no-capture --exact --ignored --include-ignored --show-output --skip=* --test-threads=* -q --list"
)

PRESETS: tuple[Preset, ...] = (
    *_presets(
        "python",
        "pytest",
        "-q -v -x -s -l -r=* --quiet --verbose --exitfirst --showlocals --lf --last-failed --ff --failed-first --nf "
        "--new-first --sw --stepwise --co --collect-only --no-header --no-summary --disable-warnings "
        "--strict-markers "
        "--strict-config --full-trace --runxfail --no-cov --cov=? --cov-branch --cov-report=term|term-missing "
        "--durations=* --durations-min=* --maxfail=* --tb=auto|long|short|line|native|no -k=* -m=* --color=* "
        "--capture=fd|sys|no|tee-sys --deselect= --ignore= --ignore-glob= --timeout=* -n=* --numprocesses=* "
        "--dist=load|loadscope|loadfile|worksteal|no -p=no:(?:cacheprovider|randomly|xdist|warnings) "
        "--fixtures --markers --version -h --help",
        via=_PYTHON,
    ),
    *_presets(
        "python",
        "unittest, unittest discover",
        "-v -q -f -b -c --verbose --quiet --failfast --buffer --catch --locals -k=* -s= --start-directory= -p=* "
        "--pattern=* -t= --top-level-directory=",
        via=_PYTHON_M,
    ),
    *_presets(
        "python",
        "ruff check",
        "-q -v --quiet --verbose --no-cache -n --no-fix --statistics --preview --show-files --diff -e --exit-zero "
        "--select=* --ignore=* --extend-select=* --extend-ignore=* --exclude= --extend-exclude= --target-version=* "
        "--line-length=* --output-format=concise|full|json|grouped|github",
        via=_PYTHON,
    ),
    *_presets(
        "python",
        "ruff format",
        "-q -v --quiet --verbose --no-cache -n --check --diff --preview --exclude= --target-version=* "
        "--line-length=*",
        via=_PYTHON,
        needs="--check --diff",
    ),
    *_presets(
        "python",
        "mypy",
        "-v --strict --no-incremental --ignore-missing-imports --show-error-codes --show-error-context --pretty "
        "--no-error-summary --no-pretty --no-color-output --namespace-packages --explicit-package-bases "
        "--check-untyped-defs --disallow-untyped-defs --warn-unused-ignores --warn-unreachable --follow-imports=* "
        "--python-version=* --platform=* --exclude=* -p=* --package=* -m=* --module=* --version",
        via=_PYTHON,
    ),
    *_presets("python", "list, check, freeze", "-q --quiet", nothing, via=_PIP),
    *_presets("python", "show", "-f --files -q", names(r"[A-Za-z0-9][\w.-]*"), via=_PIP),
    *_presets("node", "npm test", _NPM, after=_SCRIPT_OPTIONS),
    *_presets("node", "npm run", _NPM, _SCRIPT, after=_SCRIPT_OPTIONS),
    *_presets("node", "pnpm test, yarn test", _SCRIPT_OPTIONS, after=_SCRIPT_OPTIONS),
    *_presets("node", "pnpm run, yarn run", _SCRIPT_OPTIONS, _SCRIPT, after=_SCRIPT_OPTIONS),
    *_presets("node", "npm ls, pnpm ls, pnpm list", "--all -a --json --prod --dev --depth=* --long -l", _PACKAGES),
    *_presets(
        "node",
        "node",
        "--test --test-only --check -c --no-warnings --trace-warnings --enable-source-maps --test-name-pattern=* "
        "--test-skip-pattern=* --test-reporter=spec|tap|dot --test-concurrency=* --test-timeout=* "
        "--test-force-exit --experimental-vm-modules --experimental-strip-types --version -v",
    ),
    *_presets(
        "node",
        "tsc",
        "--noEmit --pretty -p= --project= --strict --skipLibCheck --listFiles --listFilesOnly --showConfig "
        "--traceResolution --version -v",
        via=_NODE,
    ),
    *_presets(
        "node",
        "eslint",
        "--quiet --no-color --color --max-warnings=* --ext=* --no-inline-config --report-unused-disable-directives "
        "--no-error-on-unmatched-pattern -f=stylish|json|compact|unix --format=stylish|json|compact|unix --version "
        "-v",
        via=_NODE,
    ),
    *_presets(
        "node",
        "jest",
        f"{_SCRIPT_OPTIONS} -b --colors --no-cache --json --listTests --onlyChanged -o --findRelatedTests "
        "--forceExit "
        "--detectOpenHandles --expand --testPathPattern=* --testPathPatterns=* --testTimeout=* --maxWorkers=* -w=*",
        via=_NODE,
    ),
    *_presets(
        "node",
        "vitest run, vitest list",
        "-t=* --testNamePattern=* --bail=* --passWithNoTests --silent --no-color --project=* "
        "--reporter=default|basic|verbose|dot|tap|json --testTimeout=* --dir=",
        via=_NODE,
    ),
    *_presets("go", "go test, go vet", _GO, long_by_one_dash=True),
    *_presets("go", "go build", f"{_GO} -o=/dev/null", long_by_one_dash=True),
    *_presets("go", "go list", "-m -f=* -json -deps -test -e -tags=* -mod=readonly|vendor", long_by_one_dash=True),
    *_presets("cargo", "cargo test", _CARGO, names(r"[\w:]+"), after=_LIBTEST),
    *_presets("cargo", "cargo build, cargo check", _CARGO, nothing),
    *_presets("cargo", "cargo clippy", _CARGO, nothing, after="-D=* -W=* -A=*"),
    *_presets("cargo", "cargo fmt", "--all -q --check", nothing, needs="--check"),
    *_presets(
        "maven",
        "mvn",
        "-q -B -o -e -ntp -am -pl=* -Dtest=* -DskipITs -DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false",
        _PHASES,
        long_by_one_dash=True,
    ),
    *_presets(
        "maven",
        "gradle",
        "--offline --info --stacktrace -q --quiet -s --continue --no-daemon --console=plain --tests=*",
        _TASKS,
    ),
    *_presets(
        "dotnet",
        "dotnet test, dotnet build",
        "--no-build --no-restore --nologo -v=* --verbosity=* -c=* --configuration=* --filter=* -f=* --framework=* "
        "--list-tests",
    ),
    *_presets(
        "gem",
        "rspec",
        "--fail-fast=? --no-fail-fast --color --no-color -b --backtrace --only-failures --next-failure --dry-run "
        "-e=* "
        "--example=* -t=* --tag=* --seed=* --order=defined|rand|random -f=p|d|j|progress|documentation|json "
        "--format=progress|documentation|json",
        via=("", "bundle exec"),
    ),
    *_presets(
        "composer",
        "phpunit",
        "--testdox --stop-on-failure --stop-on-error --no-coverage --colors=? --filter=* --group=* --exclude-group=* "
        "--testsuite=* --list-tests --list-suites --no-progress --version",
    ),
    *_presets("composer", "composer test", "-n -q --no-interaction --quiet", nothing),
    *_presets("make", "make", "-k -s -n -B -j=? --keep-going --silent --dry-run --always-make --jobs=?", _TARGETS),
    *_presets(
        None,
        "status",
        "-s -b -v -z -u=? --short --branch --long --porcelain=? --untracked-files=? --ignored=? --no-renames",
        revisions,
        via=_GIT,
    ),
    *_presets(None, "diff", _DIFF, revisions, via=_GIT),
    *_presets(None, "log, show", _LOG, revisions, via=_GIT),
    *_presets(
        None,
        "blame",
        "-L=* -w -s -e -M=? -C=? -l -f -n -p --date=* --porcelain --line-porcelain",
        revisions,
        via=_GIT,
    ),
    *_presets(
        None,
        "ls-files",
        "-c -d -m -o -s -u -z -t -i -x=* --cached --deleted --modified --others --stage --ignored --exclude=* "
        "--exclude-standard --error-unmatch --full-name --eol",
        revisions,
        via=_GIT,
    ),
    *_presets(
        None,
        "grep",
        "-# -n -i -w -l -L -c -E -F -P -G -v -h -H -o -I -q -a -p -W -e=* -A=* -B=* -C=* -m=* --cached --untracked "
        "--count --line-number --ignore-case --word-regexp --fixed-strings --extended-regexp --perl-regexp "
        "--name-only --files-with-matches --files-without-match --heading --break --max-depth=* --and --or --not "
        "--all-match --no-color --color=?",
        pattern,
        via=_GIT,
    ),
    *_presets(
        None, "rev-parse", "--short=? --abbrev-ref=? --verify -q --show-toplevel --show-prefix", revisions, via=_GIT
    ),
    *_presets(None, "branch", "-a -r -v --all --remotes --show-current --no-color", nothing, via=_GIT),
    *_presets(None, "branch --list", "-a -r -v --all --remotes --no-color", revisions, via=_GIT),
    *_presets(
        None,
        "rg",
        "-n -i -w -l -c -v -o -F -S -s -U -P -N -H -I -0 -x -u -p -q -. --hidden --no-ignore --files --no-heading "
        "--heading --json --stats --count --count-matches --files-with-matches --files-without-match --line-number "
        "--no-line-number --ignore-case --smart-case --case-sensitive --word-regexp --fixed-strings --multiline "
        "--multiline-dotall --pcre2 --only-matching --invert-match --column --vimgrep --trim --type-list "
        "--no-messages --quiet --no-filename --with-filename --line-regexp --text -a -e=* --regexp=* -g=* --glob=* "
        "--iglob=* -t=* --type=* -T=* --type-not=* -A=* -B=* -C=* --after-context=* --before-context=* --context=* "
        "-m=* --max-count=* -d=* --max-depth=* -M=* --max-columns=* --color=* --sort=* --sortr=* -r=* --replace=* "
        "-j=* --threads=* --max-filesize=*",
        pattern,
    ),
    *_presets(
        None,
        "grep",
        "-# -n -i -r -E -F -P -G -v -w -x -c -l -L -h -H -o -q -s -z -a -I -b -e=* -A=* -B=* -C=* -m=* --recursive "
        "--line-number --ignore-case --word-regexp --line-regexp --count --files-with-matches --files-without-match "
        "--only-matching --invert-match --fixed-strings --extended-regexp --perl-regexp --no-filename "
        "--with-filename --no-messages --quiet --text --include=* --exclude=* --exclude-dir=* --regexp=* "
        "--after-context=* --before-context=* --context=* --max-count=* --color=?",
        pattern,
    ),
    *_presets(
        None,
        "find",
        "-name=* -iname=* -path=* -ipath=* -wholename=* -iwholename=* -regex=* -iregex=* -regextype=* -type=* "
        "-size=* "
        "-mtime=* -mmin=* -ctime=* -cmin=* -atime=* -amin=* -newer= -maxdepth=* -mindepth=* -perm=* -links=* -empty "
        "-not -o -or -a -and -print -print0 -ls -prune -xdev -mount -depth -true -false -executable -readable "
        "-writable -quit",
        long_by_one_dash=True,
    ),
    *_presets(None, "sed -n", "", _LINES),
    *_presets(
        None,
        "ls",
        "-a -A -l -h -R -1 -d -t -S -r -F -p -s -i -n -g -o -c -u -X --all --almost-all --recursive --color=? "
        "--human-readable --group-directories-first --reverse --size --directory",
    ),
    *_presets(None, "cat", "-n -b -s -A -E -T -v -e -t -u --number --number-nonblank --squeeze-blank --show-all"),
    *_presets(None, "head, tail", "-# -n=* -c=* -q -v --lines=* --bytes=* --quiet --verbose"),
    *_presets(None, "wc", "-l -w -c -m -L --lines --words --bytes --chars --max-line-length"),
    *_presets(
        None,
        "diff",
        "-# -u -r -q -N -w -b -B -i -y -s -a -c -d -p -t -U=* -C=* -W=* --unified=? --recursive --brief --new-file "
        "--ignore-all-space --ignore-space-change --ignore-case --ignore-blank-lines --side-by-side --color=? "
        "--no-dereference --strip-trailing-cr",
    ),
)
