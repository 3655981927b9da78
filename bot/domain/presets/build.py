"""Compilers, build tools and test runners of the other languages."""

from __future__ import annotations

from bot.domain.presets.preset import Preset, names, nothing, presets

_CARGO = (
    "--all --workspace --all-features --no-default-features --all-targets --release -r -q --quiet -v --verbose --lib "
    "--bins --tests --examples --doc --no-run --no-fail-fast --locked --offline --frozen --keep-going -p=* "
    "--package=* --exclude=* --features=* -F=* --test=* --bin=* --example=* -j=* --jobs=* --color=* "
    "--message-format=human|short|json"
)
_LIBTEST = (
    "--nocapture --no-capture --exact --ignored --include-ignored --show-output --skip=* --test-threads=* -q --list"
)
# rustc reads `@FILE` wherever it stands, so a lint is a name and nothing else.
_LINTS = "-D=[a-z][a-z0-9_:-]* -W=[a-z][a-z0-9_:-]* -A=[a-z][a-z0-9_:-]*"
_GO = (
    "-v -race -short -cover -failfast -json -benchmem -count=* -run=* -skip=* -bench=* -list=* -timeout=* "
    "-parallel=* -cpu=* -tags=* -shuffle=* -mod=readonly|vendor -vet=off -benchtime=* -trimpath -x -n -a -p=*"
)
# `module@version` is looked up in the network.
_GO_PACKAGES = names(r"[\w./*+-]+")
_DOTNET = (
    "--no-restore --nologo -v=q|m|n|d|diag|quiet|minimal|normal|detailed|diagnostic "
    "--verbosity=q|m|n|d|diag|quiet|minimal|normal|detailed|diagnostic -c=\\w+ --configuration=\\w+ "
    "-f=[\\w.-]+ --framework=[\\w.-]+"
)
# `/p:NAME=VALUE` sets a property, and after `--` so does `NAME=VALUE`.
_PROJECTS = names(r"[\w.][\w./+-]*")
_PHASES = names(r"validate|compile|test-compile|test|verify")
_TASKS = names(
    r":?(?:[A-Za-z0-9_-]++:)*+"
    r"(?:check|test|integrationTest|classes|testClasses|assemble|build|compile(?:Test)?(?:Java|Kotlin))"
)
_TARGETS = names(r"[A-Za-z0-9_.][A-Za-z0-9_./-]*")

PRESETS: tuple[Preset, ...] = (
    *presets("go", "go test, go vet", _GO, _GO_PACKAGES, style="go"),
    *presets("go", "go build", f"{_GO} -o=/dev/null", _GO_PACKAGES, style="go"),
    *presets("go", "go list", "-m -f=* -json -deps -test -e -tags=* -mod=readonly|vendor", _GO_PACKAGES, style="go"),
    *presets("go", "go version", "", nothing, style="go"),
    *presets("go", "gofmt", "-l -d -e -s", style="go"),
    *presets("cargo", "cargo test", _CARGO, names(r"[\w:]+"), after=_LIBTEST),
    *presets("cargo", "cargo build, cargo check", _CARGO, nothing),
    *presets("cargo", "cargo clippy", _CARGO, nothing, after=_LINTS),
    *presets("cargo", "cargo fmt", "--all -q --check", nothing, after="--check", needs="--check"),
    *presets(
        "maven",
        "mvn",
        "-q -B -o -e -ntp -am -pl=* -Dtest=* -DskipITs -DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false",
        _PHASES,
        style="single",
        reads_at_files=True,
    ),
    *presets(
        "maven",
        "gradle",
        "--offline --info --stacktrace -q --quiet -s --continue --no-daemon --console=plain --tests=*",
        _TASKS,
        reads_at_files=True,
    ),
    *presets(
        "dotnet",
        "dotnet test",
        f"{_DOTNET} --no-build --filter=* --list-tests",
        _PROJECTS,
        style="single",
        reads_at_files=True,
    ),
    *presets("dotnet", "dotnet build", _DOTNET, _PROJECTS, style="single", reads_at_files=True),
    *presets(
        "gem",
        "rspec",
        "--fail-fast=? --no-fail-fast --color --no-color -b --backtrace --only-failures --next-failure --dry-run "
        "-e=* --example=* -t=* --tag=* --seed=* --order=(?:defined|rand|random)(?::\\d+)? "
        "-f=p|d|j|progress|documentation|json --format=progress|documentation|json",
        via=("", "bundle exec"),
    ),
    *presets(
        "composer",
        "phpunit",
        "--testdox --stop-on-failure --stop-on-error --no-coverage --colors=? --filter=* --group=* --exclude-group=* "
        "--testsuite=* --list-tests --list-suites --no-progress --version",
    ),
    *presets("composer", "composer test", "-n -q --no-interaction --quiet", nothing),
    *presets(
        "make",
        "make",
        "-k -s -n -B -j=? --keep-going --silent --dry-run --always-make --jobs=? --no-print-directory",
        _TARGETS,
    ),
)
