"""What the agent may run without anybody configuring it: programs, sub-commands, and the options each may have.

To add a program, add a line to `PRESETS`. Options not named are refused: an unknown one may run a program, write a
file, or reach out. Write a flag as `-v`, one with a value as `-k=`; long options are taken in full only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Preset:
    """One rule. `words` are the fixed first words; `options` those that may follow, `=` at the end for a value;
    `args` says what the other words may be: paths or patterns, names (nothing with a slash), or nothing at all."""

    words: tuple[str, ...]
    options: frozenset[str]
    args: Literal["any", "paths", "names", "none"] = "paths"


def _rule(words: str, options: str = "", args: Literal["any", "paths", "names", "none"] = "paths") -> Preset:
    return Preset(words=tuple(words.split()), options=frozenset(options.split()), args=args)


_PYTEST = (
    "-q -qq -v -vv -x -s -l -ra -rA -rs -rf --quiet --verbose --exitfirst --lf --ff --last-failed --failed-first --nf "
    "--sw --stepwise --collect-only --co --no-header --no-summary --showlocals --durations= --maxfail= -k= -m= --tb= "
    "--color= --capture= -n= --no-cov --disable-warnings --strict-markers --strict-config --import-mode= --ignore= "
    "--deselect= --runxfail --version -h --help"
)
_UNITTEST = "-v -q -f -b --verbose --quiet --failfast --buffer --locals -k= -h --help"
_JS_TESTS = (
    "--run --coverage --silent --verbose --bail --ci --no-color --passWithNoTests --testNamePattern= -t= --reporter="
)
_GO = "-v -race -short -count= -run= -bench= -timeout= -failfast -cover -json -tags= -parallel= -cpu= -list="
_CARGO = (
    "--all --workspace --all-features --no-default-features --all-targets --lib --bins --tests --release --locked "
    "--offline --no-fail-fast --no-run --features= --package= -p= --test= --bin= --example= -q --quiet -v --verbose "
    "--nocapture --exact --test-threads= --color="
)
_GREP = (
    "-r -R -n -i -l -L -c -w -x -v -o -h -H -E -F -P -s -q -I -a -A= -B= -C= -m= -e= --include= --exclude= "
    "--exclude-dir= --color= --line-number --ignore-case --files-with-matches --count --word-regexp --recursive "
    "--fixed-strings --extended-regexp --invert-match --only-matching --no-filename --with-filename"
)
_RG = (
    "-n -i -l -c -w -x -v -o -F -P -U -S -s -q -u -uu -A= -B= -C= -m= -e= -g= -t= -T= --line-number --ignore-case "
    "--files-with-matches --count --word-regexp --fixed-strings --invert-match --only-matching --multiline --smart-case "
    "--files --hidden --no-ignore --no-heading --heading --glob= --iglob= --type= --type-not= --max-count= --max-depth= "
    "--color= --context= --after-context= --before-context= --sort= --stats --column --json --no-filename"
)
_GIT_LOG = (
    "-n= -p -s --oneline --stat --shortstat --name-only --name-status --numstat --graph --decorate --no-decorate --patch "
    "--no-patch --reverse --all --merges --no-merges --first-parent --follow --max-count= --since= --until= --after= "
    "--before= --author= --grep= --format= --pretty= --date= --abbrev-commit --no-color --color= -U= --unified= -w -b "
    "--no-ext-diff --no-textconv -S= -G= -i -M --cached --staged --word-diff --diff-filter= --check --summary --minimal "
    "-1 -2 -3 -4 -5 -6 -7 -8 -9 -10 -20 -30 -50 -100"
)

PRESETS: tuple[Preset, ...] = (
    _rule("pytest", _PYTEST),
    _rule("python -m pytest", _PYTEST),
    _rule("python3 -m pytest", _PYTEST),
    _rule("python -m unittest", _UNITTEST),
    _rule("python3 -m unittest", _UNITTEST),
    _rule("python -m unittest discover", f"{_UNITTEST} -s= -p= -t= --start-directory= --pattern="),
    _rule("python3 -m unittest discover", f"{_UNITTEST} -s= -p= -t= --start-directory= --pattern="),
    _rule("ruff check", "--select= --ignore= --output-format= --statistics --diff --no-fix --preview -q --quiet"),
    _rule("ruff format", "--check --diff -q --quiet"),
    _rule(
        "mypy", "--strict --no-incremental --pretty --show-error-codes --ignore-missing-imports -p= -m= --package="
    ),
    _rule("python -m mypy", "--strict --pretty --show-error-codes"),
    _rule("python3 -m mypy", "--strict --pretty --show-error-codes"),
    _rule("npm test", "--silent -s", "any"),
    _rule("npm run", "--silent -s --if-present", "names"),
    _rule("npm ls", "--depth= --all --json", "names"),
    _rule("pnpm test", "--silent", "any"),
    _rule("pnpm run", "--silent", "names"),
    _rule("yarn test", "--silent", "any"),
    _rule("yarn run", "--silent", "names"),
    _rule("npx tsc", "--noEmit --pretty -p= --project= --version"),
    _rule("npx eslint", "--quiet --no-color --max-warnings= --ext="),
    _rule("npx jest", _JS_TESTS),
    _rule("npx vitest", _JS_TESTS),
    _rule("npx vitest run", _JS_TESTS),
    _rule("npx mocha", "--reporter= --grep= -g= --bail"),
    _rule("tsc", "--noEmit --pretty -p= --project= --version"),
    _rule("eslint", "--quiet --no-color --max-warnings= --ext="),
    _rule("jest", _JS_TESTS),
    _rule("vitest", _JS_TESTS),
    _rule("vitest run", _JS_TESTS),
    _rule("mocha", "--reporter= --grep= -g= --bail"),
    _rule("node --test", "--test-reporter= --test-name-pattern= --test-only --test-concurrency="),
    _rule("node", "--version"),
    _rule("go test", _GO),
    _rule("go vet", "-json"),
    _rule("go build", "-v"),
    _rule("go list", "-json -m -deps"),
    _rule("go version", "", "none"),
    _rule("cargo test", _CARGO, "any"),
    _rule("cargo check", _CARGO),
    _rule("cargo build", _CARGO),
    _rule("cargo clippy", _CARGO),
    _rule("mvn test", "-q -B -o -Dtest="),
    _rule("gradle test", "--tests= -q --offline --no-daemon"),
    _rule("dotnet test", "--no-restore --no-build --filter= --verbosity= -v= --nologo"),
    _rule("dotnet build", "--no-restore --verbosity= -v= --nologo"),
    _rule("bundle exec rspec", "--format= -f= --example= -e= --fail-fast --no-color"),
    _rule("rspec", "--format= -f= --example= -e= --fail-fast --no-color"),
    _rule("phpunit", "--filter= --testdox --stop-on-failure --no-coverage"),
    _rule("composer test", "", "none"),
    _rule("make", "-n -k -s -B -j= --dry-run --keep-going --silent", "names"),
    _rule("git status", "-s -sb -b --short --branch --porcelain --porcelain= --untracked-files= -u"),
    _rule("git diff", _GIT_LOG),
    _rule("git log", _GIT_LOG),
    _rule("git show", _GIT_LOG),
    _rule("git blame", "-L= -w -M -C -e -s --date="),
    _rule("git ls-files", "-m -o -d -s -c --exclude-standard --modified --others --deleted --stage --cached"),
    _rule(
        "git grep", "-n -i -l -c -w -v -E -F -P -h -H -e= --line-number --ignore-case --count --untracked --cached"
    ),
    _rule("git rev-parse", "--short --abbrev-ref --verify --show-toplevel"),
    _rule("git branch", "--list -a -r -v -vv --show-current --contains=", "none"),
    _rule("rg", _RG),
    _rule("grep", _GREP),
    _rule("egrep", _GREP),
    _rule("fgrep", _GREP),
    _rule(
        "find",
        "-name= -iname= -path= -ipath= -regex= -type= -maxdepth= -mindepth= -size= -newer= -mtime= -mmin= -not -o -or -a "
        "-and -empty -print -print0 -prune -wholename= -perm=",
    ),
    _rule("ls", "-l -a -A -h -R -1 -t -S -r -d -F -la -al -lah -lh -ltr -lt --all --human-readable --recursive"),
    _rule("cat", "-n -A -b -e -t -s --number"),
    _rule("head", "-n= -c= --lines= --bytes= -q -v"),
    _rule("tail", "-n= -c= --lines= --bytes= -q -v"),
    _rule("wc", "-l -w -c -m -L --lines --words --bytes --chars"),
    _rule("diff", "-u -r -q -N -w -b -B -i -y -U= --brief --recursive --unified= --ignore-all-space"),
    _rule("pwd", "", "none"),
    _rule("tree", "-a -d -L= -I= -P= --dirsfirst"),
    _rule("file", "-b --brief --mime"),
    _rule("stat", "-c= --format="),
)
