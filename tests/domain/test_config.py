"""The rules mean what their author meant, or are refused with the place of the error."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.domain.ceilings import covers, model_spec
from bot.domain.config import (
    NOT_YET,
    PACKAGE_MANAGERS,
    SIZE_LIMIT,
    Ceilings,
    Check,
    Config,
    ConfigError,
    over,
    parse,
    render,
    schema,
)

WHOLE = """\
version: 1
enabled: true
trigger:      {label: fix-me, assignee: true, permission: maintain, bots: ["Renovate[bot]"]}
grants:       {fix: [read, write], ask: [read], plan: []}
sandbox:      {image: "img:1", memory: 512MiB, cpus: 1.5, disk: 1GiB, lifetime: 2h, retention: 7d, env: {A_1: "1"}}
setup:        [npm ci]
checks:
  - {name: tests, run: npm test, timeout: 20m, report: build/junit.xml}
  - {name: types, run: "npx tsc | tee log"}
verification: {repeat: 1, tests: null, weakened: refuse, unverified: comment}
commands:     {allow: ["npm run *", "npx tsc *"], deny: ["npm publish *"]}
paths:        {protected: ["migrations/**", "docs/"], workflows: refuse}
network:      {setup: [npm, "*.example.org"], agent: [docs.example.org], checks: ["db.internal:5432"]}
limits:       {steps: 7, tool_calls: 8, tokens: 2_000, duration: 90s, cost: 0.25, attempts: 1, files: 9, patch: 64KiB}
timeouts:     {clone: 1m, setup: 2m, command: 3m, tests: 4m}
model:        {name: "openai:x", reasoning_effort: null}
pull_request: {base: develop, publish: after_approval, draft: true, labels: [a], reviewers: [c], branch: "x/{number}"}
projects:     []
instructions: null
onboarding:   false
"""


def refused(text: str | bytes) -> list[tuple[int, int, str, str]]:
    with pytest.raises(ConfigError) as caught:
        parse(text.encode() if isinstance(text, str) else text)
    return [(p.line, p.column, p.key, p.message) for p in caught.value.problems]


@pytest.mark.parametrize("data", [None, b"", b"# nothing yet\n", b"---\n", b"null", b"~", b"\xef\xbb\xbf", b"{}"])
def test_no_rules_are_the_defaults(data: bytes | None) -> None:
    assert parse(data) == Config()


def test_the_defaults_are_the_documented_ones() -> None:
    config = Config()
    assert (config.setup, config.checks, config.network.setup) == (None, None, None)
    assert config.trigger.permission == "write"
    assert (config.grants.fix, config.grants.ask) == (("read", "write", "exec"), ("read",))
    assert (config.sandbox.lifetime, config.sandbox.retention) == (3600, 14 * 86400)
    assert (config.limits.duration, config.limits.cost, config.limits.patch) == (1800, Decimal(2), 1024**2)
    assert (config.pull_request.branch, config.pull_request.labels) == ("coder/issue-{number}", ("coder",))
    assert over(config, Ceilings()) == ()


def test_every_key_is_read() -> None:
    config = parse(WHOLE.encode())
    assert config.trigger.model_dump() == {
        "label": "fix-me",
        "assignee": True,
        "permission": "maintain",
        "bots": ("renovate[bot]",),
    }
    assert config.grants.model_dump() == {"fix": ("read", "write"), "ask": ("read",), "plan": ()}
    assert (config.sandbox.image, config.sandbox.memory, config.sandbox.cpus) == (
        "img:1",
        512 * 1024**2,
        Decimal("1.5"),
    )
    assert (config.sandbox.lifetime, config.sandbox.env) == (7200, {"A_1": "1"})
    assert config.setup == ("npm ci",)
    assert config.checks == (
        Check(name="tests", run="npm test", timeout=1200, report="build/junit.xml"),
        Check(name="types", run="npx tsc | tee log"),
    )
    assert config.commands.allow == ("npm run *", "npx tsc *")
    assert config.paths.protected == ("migrations/**", "docs/")
    assert config.network.setup == ("npm", "*.example.org")
    assert config.network.checks == ("db.internal:5432",)
    assert config.limits.model_dump(mode="python")["tokens"] == 2000
    assert (config.limits.duration, config.limits.cost, config.limits.patch) == (90, Decimal("0.25"), 65536)
    assert (config.timeouts.clone, config.timeouts.tests) == (60, 240)
    assert config.pull_request.base == "develop"
    assert not config.onboarding


def test_rules_that_are_shown_read_back_to_the_same_rules() -> None:
    for config in (Config(), parse(WHOLE.encode())):
        assert parse(render(config).encode()) == config


def test_what_is_read_fits_the_schema() -> None:
    validator = jsonschema.Draft202012Validator(schema())
    for text in (WHOLE, "", "limits:\n", render(Config())):
        validator.validate(yaml.safe_load(text))
    for wrong in ({"limts": {}}, {"limits": {"steps": "x"}}, {"limits": {"duration": 600}}, {"checks": [{}]}, []):
        assert not validator.is_valid(wrong), wrong


def test_a_section_whose_lines_are_all_comments_is_empty() -> None:
    assert parse(b"limits:\n  # steps: 3\nchecks:\n") == Config()


def test_an_empty_list_is_not_the_same_as_nothing_said() -> None:
    config = parse(b"setup: []\nchecks: []\nnetwork: {setup: []}\n")
    assert (config.setup, config.checks, config.network.setup) == ((), (), ())


def test_words_that_yaml_takes_for_switches_are_switches_where_one_is_asked_for() -> None:
    for word in ("off", "no", "false", "OFF"):
        assert parse(f"enabled: {word}".encode()).enabled is False
    assert parse(b"pull_request: {draft: yes}").pull_request.draft is True


EXPECTED_TEXT = [
    ("no", "false (that is what YAML takes `no` for); put it in quotes"),
    ("true", "true; put it in quotes"),
    ("123", "`123`; put it in quotes"),
    ("1.5", "`1.5`; put it in quotes"),
    ("[x]", "a list"),
    ("{x: y}", "keys and values"),
]


@pytest.mark.parametrize(("word", "found"), EXPECTED_TEXT)
def test_text_is_never_guessed_from_something_else(word: str, found: str) -> None:
    assert refused(f"pull_request:\n  base: {word}\n") == [
        (2, 9, "pull_request.base", f"expected text, found {found}")
    ]


WRONG = [
    ("- a", (1, 1, "", "expected keys and values, found a list")),
    ("just text", (1, 1, "", "expected keys and values, found `just text`")),
    ("version: 2", (1, 10, "version", "expected 1, found `2`")),
    ("version: true", (1, 10, "version", "expected 1, found true")),
    ("limts: {}", (1, 1, "limts", "there is no key `limts`; did you mean `limits`?")),
    ("limits: {stepz: 1}", (1, 10, "limits.stepz", "there is no key `stepz`; did you mean `steps`?")),
    ("steps: 3", (1, 1, "steps", "there is no key `steps` here; it belongs under `limits`")),
    ("zzzzzz: 3", (1, 1, "zzzzzz", "there is no key `zzzzzz` here")),
    ("a:: b", (1, 1, "a:", "there is no key `a:` here")),
    ("<<: {enabled: false}", (1, 1, "<<", "there is no key `<<` here")),
    ("on: push", (1, 1, "on", "there is no key `on` here")),
    ("checks: [{name: a, run: b, tmeout: 1m}]", (1, 28, "checks[0].tmeout", "did you mean `timeout`?")),
    ("checks: [{name: a}]", (1, 10, "checks[0].run", "`run` is missing")),
    ("enabled: true\nenabled: false", (2, 1, "enabled", "`enabled` is here twice (first in line 1)")),
    ("? [a]\n: b", (1, 3, "", "a key must be text")),
    ('enabled: "false"', (1, 10, "enabled", 'expected true or false, found `"false"`')),
    ("enabled:", (1, 9, "enabled", "expected true or false, found nothing")),
    ("pull_request: {labels: ~}", (1, 24, "pull_request.labels", "expected a list, found nothing")),
    ("setup: npm ci", (1, 8, "setup", "expected a list, found `npm ci`")),
    ("setup: [~]", (1, 9, "setup[0]", "expected text, found nothing")),
    ("setup: ['']", (1, 9, "setup[0]", "expected text that is not empty")),
    ('setup: ["a\\0`"]', (1, 9, "setup[0]", 'control characters can\'t be used here, found `"a��"`')),
    (f"setup: [{'a' * 4001}]", (1, 9, "setup[0]", f"expected at most 4000 characters, found `{'a' * 80}…`")),
    ("trigger: {permission: read}", (1, 23, "trigger.permission", "expected 'write', 'maintain' or 'admin'")),
    ("trigger: {permission: wirte}", (1, 23, "trigger.permission", "did you mean `write`?")),
    ("trigger: {permission: []}", (1, 23, "trigger.permission", "'admin', found a list")),
    ("limits: 3", (1, 9, "limits", "expected keys and values, found `3`")),
    ("sandbox: {env: [a]}", (1, 16, "sandbox.env", "expected keys and values, found a list")),
    ("sandbox: {env: {A: 1}}", (1, 20, "sandbox.env.A", "expected text, found `1`; put it in quotes")),
    ("sandbox: {env: {A: a, GIT_DIR: x}}", (1, 16, "sandbox.env", "`GIT_DIR` can't be set here")),
    ("sandbox: {env: {ld_preload: x}}", (1, 16, "sandbox.env", "`ld_preload` can't be set here")),
    ("sandbox: {env: {BASH_ENV: x}}", (1, 16, "sandbox.env", "`BASH_ENV` can't be set here")),
    ("sandbox: {env: {1A: x}}", (1, 16, "sandbox.env", "expected names of letters")),
    ("sandbox: {cpus: 0}", (1, 17, "sandbox.cpus", "expected more than 0")),
    ("sandbox: {cpus: 300}", (1, 17, "sandbox.cpus", "expected at most 256")),
    ("limits: {steps: 0}", (1, 17, "limits.steps", "expected at least 1, found `0`")),
    ("limits: {steps: 1.5}", (1, 17, "limits.steps", "expected a whole number, found `1.5`")),
    ("limits: {steps: 010}", (1, 17, "limits.steps", "expected a whole number, found `010`")),
    ("limits: {steps: 1:30}", (1, 17, "limits.steps", "expected a whole number, found `1:30`")),
    ("limits: {steps: 2026-01-01}", (1, 17, "limits.steps", "expected a whole number")),
    ("limits: {cost: .inf}", (1, 16, "limits.cost", "expected a number that is finite, found `.inf`")),
    ("limits: {cost: -.NaN}", (1, 16, "limits.cost", "expected a number")),
    ("limits: {cost: true}", (1, 16, "limits.cost", "expected a number, found true")),
    ("limits: {cost: -1}", (1, 16, "limits.cost", "expected a number from 0")),
    ("limits: {cost: 0.00001}", (1, 16, "limits.cost", "at most four decimal places")),
    ("limits: {duration: 600}", (1, 20, "limits.duration", "expected a duration such as `10m`")),
    ("limits: {duration: 0m}", (1, 20, "limits.duration", "more than nothing")),
    ("limits: {duration: ٣m}", (1, 20, "limits.duration", "expected a duration such as `10m`")),
    ("limits: {duration: true}", (1, 20, "limits.duration", "expected a duration such as `10m`")),
    ("sandbox: {retention: 400d}", (1, 22, "sandbox.retention", "expected at most a year")),
    ("limits: {patch: 1000}", (1, 17, "limits.patch", "expected a size such as `512MiB`")),
    ("limits: {patch: 1MB}", (1, 17, "limits.patch", "expected a size such as `512MiB`")),
    ("grants: {ask: [read, write]}", (1, 22, "grants.ask[1]", "expected 'read', found `write`")),
    ("grants: {fix: [read, push]}", (1, 22, "grants.fix[1]", "expected 'read', 'write' or 'exec', found `push`")),
    ("commands: {allow: ['*']}", (1, 20, "commands.allow[0]", "a lone `*` would stand for every command")),
    ("commands: {deny: ['a; b']}", (1, 19, "commands.deny[0]", "a shell would act on `;`")),
    ("mode: off", (1, 1, "mode", "did you mean `model`?")),
    ("base_branch: no", (1, 1, "base_branch", "there is no key `base_branch` here")),
    ("allowed_commands: ['*']", (1, 1, "allowed_commands", "did you mean `commands`?")),
    ("max_cost: 999", (1, 1, "max_cost", "there is no key `max_cost` here")),
    ("Enabled: false", (1, 1, "Enabled", "did you mean `enabled`?")),
    ("enabled: n", (1, 10, "enabled", "expected true or false, found `n`")),
    ("enabled: 0", (1, 10, "enabled", "expected true or false, found `0`")),
    ("enabled: fAlse", (1, 10, "enabled", "expected true or false, found `fAlse`")),
    ("enabled: [false]", (1, 10, "enabled", "expected true or false, found a list")),
    ("enabled: {{ x }}", (1, 11, "enabled", "a key must be text")),
    ("{enabled: false, 'enabled': true}", (1, 18, "enabled", "is here twice (first in line 1)")),
    ('{"enabled": false, "enabled": true}', (1, 20, "enabled", "is here twice (first in line 1)")),
    ("limits: {steps: 1, steps: 2}", (1, 20, "limits.steps", "is here twice")),
    ("`x`@octocat: 1", (1, 1, "", "no valid YAML")),
    ("'a`@octocat': 1", (1, 1, "a`@octocat", "there is no key `a�@octocat` here")),
    ("version: '1'", (1, 10, "version", 'expected 1, found `"1"`')),
    ("limits: {steps: 1e3}", (1, 17, "limits.steps", "expected a whole number, found `1e3`")),
    ("limits: {cost: 1e3}", (1, 16, "limits.cost", "expected a number, found `1e3`")),
    ("limits: {cost: NaN}", (1, 16, "limits.cost", "expected a number, found `NaN`")),
    ("limits: {cost: .5}", (1, 16, "limits.cost", "expected a number, found `.5`")),
    ("limits: {steps: 0x1f}", (1, 17, "limits.steps", "expected a whole number, found `0x1f`")),
    ("limits: {steps: 0o17}", (1, 17, "limits.steps", "expected a whole number, found `0o17`")),
    ("limits: {steps: ٣}", (1, 17, "limits.steps", "expected a whole number, found `٣`")),
    (f"limits: {{steps: {'9' * 5000}}}", (1, 17, "limits.steps", "expected a whole number, found `999")),
    ("limits: {tokens: 1000000001}", (1, 18, "limits.tokens", "expected at most 1000000000")),
    ("setup:\n- npm ci\n- - x", (3, 3, "setup[1]", "expected text, found a list")),
    ("trigger: {label: 123}", (1, 18, "trigger.label", "expected text, found `123`; put it in quotes")),
    ("trigger: {label: ''}", (1, 18, "trigger.label", "expected text that is not empty")),
    ("trigger: {assignee: coder}", (1, 21, "trigger.assignee", "expected true or false, found `coder`")),
    ("trigger: {bots: helper}", (1, 17, "trigger.bots", "expected a list, found `helper`")),
    ("trigger: {bots: [helper]}", (1, 18, "trigger.bots[0]", "expected the login of a bot")),
    ("trigger: {bots: ['*[bot]']}", (1, 18, "trigger.bots[0]", "expected the login of a bot")),
    ("network: {agent: [x.org, npm]}", (1, 26, "network.agent[1]", "`npm` has its place in `network.setup`")),
    ("grants: {fix: }", (1, 14, "grants.fix", "expected a list, found nothing")),
    ("grants: {plan: [exec]}", (1, 17, "grants.plan[0]", "expected 'read', found `exec`")),
    ("<<<<<<< HEAD", (1, 1, "", "expected keys and values, found `<<<<<<< HEAD`")),
    ("model: {name: off}", (1, 15, "model.name", "expected text, found false")),
]


@pytest.mark.parametrize(("text", "wanted"), WRONG, ids=[text[:40] for text, _ in WRONG])
def test_an_error_is_told_with_its_place(text: str, wanted: tuple[int, int, str, str]) -> None:
    [(line, column, key, message)] = refused(text)
    assert (line, column, key) == wanted[:3]
    assert wanted[3] in message


BROKEN = [
    (b"limits:\n\tsteps: 3", (2, 1), "a tab can't be used here"),
    (b"a: >\n b\n\tc", (3, 1), "a tab can't be used here"),
    (b"a: 1\nb: 'c\n", (2, 4), "this quote is never closed"),
    (b"'", (1, 1), "this quote is never closed"),
    (b"a: b: c", (1, 5), "this is no valid YAML"),
    (b'a: "\\q"', (1, 6), "this is no valid YAML"),
    (b"a: [1,\n", (2, 1), "this is no valid YAML"),
    (b"a: @b", (1, 4), "this is no valid YAML"),
    ("a: 1\x85\u2028\r[".encode(), (4, 1), "this is no valid YAML"),
    (b"a: 1\n---\nb: 2", (2, 1), "a single document"),
    (b"a: &x 1", (1, 4), "anchors and aliases"),
    (b"a: *x", (1, 4), "anchors and aliases"),
    (b"a: !!python/object:x.y 1", (1, 4), "tags (`!`)"),
    (b"[" * 3000, (1, 21), "nested too deeply"),
    (b"a: \x00", (1, 4), "this character can't be in a YAML file"),
    (b"a: 1\n b\x07", (2, 3), "this character can't be in a YAML file"),
    (b"\xff\xfea\0", (1, 1), "UTF-16"),
    ("enabled: false".encode("utf-16-be"), (1, 1), "this character can't be in a YAML file"),
    ("enabled: false".encode("utf-16-le"), (1, 2), "this character can't be in a YAML file"),
    (b"setup: [\x93npm ci\x94]", (1, 9), "not UTF-8 here"),
    (b"a: &a {enabled: false}\n<<: *a", (1, 4), "anchors and aliases"),
    (b"a: &a [*a]", (1, 4), "anchors and aliases"),
    (b"enabled: !!bool 'false'", (1, 10), "tags (`!`)"),
    (b"%TAG ! tag:x,2000:\n---\nenabled: !y false", (3, 10), "tags (`!`)"),
    (b"enabled: false\n...\nenabled: true\n", (3, 1), "this is no valid YAML"),
    (b"\n".join(b" " * depth + b"a:" for depth in range(200)), (20, 20), "nested too deeply"),
    (b"<<<<<<< HEAD\nenabled: false\n=======\nenabled: true\n>>>>>>> x\n", (2, 8), "this is no valid YAML"),
    ("a: 1\nü: é".encode("latin-1"), (2, 1), "not UTF-8 here"),
    ("a: ü".encode() + b"\xe9", (1, 5), "not UTF-8 here"),
    (b"#" * (SIZE_LIMIT + 1), (1, 1), "larger than 64KiB"),
]


@pytest.mark.parametrize(("data", "place", "words"), BROKEN, ids=[repr(data[:20]) for data, _, _ in BROKEN])
def test_what_cannot_be_read_is_told_with_its_place(data: bytes, place: tuple[int, int], words: str) -> None:
    [(line, column, key, message)] = refused(data)
    assert (line, column) == place
    assert key == ""
    assert words in message


def test_all_errors_are_told_at_once_in_their_order_and_not_too_many() -> None:
    said = refused("limits: {steps: 0}\nenabled: 1\nsetup: [1, 2]\n")
    assert [(line, key) for line, _, key, _ in said] == [
        (1, "limits.steps"),
        (2, "enabled"),
        (3, "setup[0]"),
        (3, "setup[1]"),
    ]
    assert len(refused(f"setup: [{'1, ' * 500}]")) == 20


def test_the_error_names_the_file_and_says_it_all_in_one_sentence() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(b"limts: 1", name="rules.yml")
    assert str(caught.value) == (
        "`rules.yml` has an error: line 1, column 1: there is no key `limts`; did you mean `limits`?"
    )


HIDING = [
    "pytest || true",
    "pytest||:",
    "pytest || /bin/true",
    "pytest || exit 0",
    "pytest || exit",
    "pytest || { true; }",
    "pytest || echo failed",
    "pytest; true",
    "pytest; :",
    "pytest\ntrue\n",
    "pytest; exit 0",
    "pytest &",
    "pytest & wait",
    "set +e; pytest",
    "set -x +e\npytest",
    "set +o pipefail; a | b",
    "! pytest",
    "(pytest || true)",
]
HONEST = [
    "pytest",
    "pytest -q | tee log",
    "test -d x || npm ci && npm test",
    "pytest 2>&1",
    "a && b",
    "a || exit 1",
    "pytest || { echo failed; exit 1; }",
    "pytest -k 'a || true'",
    'echo "x; exit 0" && pytest',
    "set -e; pytest",
    "server & pytest",
    "docker compose up --wait",
    "pytest --exit 0x",
    "true && pytest",
    "a || truecolor",
    "pytest &>log",
]


@pytest.mark.parametrize("line", HIDING)
def test_a_check_that_hides_its_exit_status_is_refused(line: str) -> None:
    [(row, _, key, message)] = refused(yaml.safe_dump({"checks": [{"name": "t", "run": line}]}))
    assert row >= 1
    assert key == "checks[0].run"
    assert "hides its exit status" in message


@pytest.mark.parametrize("line", HONEST)
def test_a_check_that_can_fail_is_taken(line: str) -> None:
    config = parse(yaml.safe_dump({"checks": [{"name": "t", "run": line}]}).encode())
    assert config.checks == (Check(name="t", run=line),)


@pytest.mark.parametrize(
    "entry", [*sorted(PACKAGE_MANAGERS), "x.org", "*.x.org", "a.b-c.x.org:8443", "db:5432", "all", "X.ORG"]
)
def test_a_network_list_takes_hosts_and_package_managers(entry: str) -> None:
    assert parse(yaml.safe_dump({"network": {"setup": [entry]}}).encode()).network.setup == (entry.lower(),)


@pytest.mark.parametrize(
    "entry",
    [
        "nmp",
        "*",
        "*.org",
        "https://x.org",
        "x.org/",
        "x.org:0",
        "x.org:99999",
        "a b",
        "-x.org",
        "*.x.org:80",
        "a." * 130 + "b",
    ],
)
def test_anything_else_in_a_network_list_is_refused(entry: str) -> None:
    [(_, _, key, message)] = refused(yaml.safe_dump({"network": {"setup": [entry]}}))
    assert key == "network.setup[0]"
    assert "`npm`" in message


@pytest.mark.parametrize(
    "branch",
    [
        "x",
        "{}{number}",
        "{number.x}",
        "{foo}-{number}",
        "a b{number}",
        "a..{number}",
        "/{number}",
        "{number}/",
        "x//{number}",
        "{number}.lock",
        "a.lock/{number}",
        "-{number}",
        "a/.{number}",
        "{number}@{",
        "a~{number}",
        "x" * 200 + "{number}",
    ],
)
def test_a_branch_git_would_not_take_is_refused(branch: str) -> None:
    [(_, _, key, _)] = refused(yaml.safe_dump({"pull_request": {"branch": branch}}))
    assert key == "pull_request.branch"


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../x", "a//b", "./x", "~/x", "a\\b", "x/"])
def test_a_path_that_leaves_the_repository_is_refused(path: str) -> None:
    [(_, _, key, _)] = refused(yaml.safe_dump({"checks": [{"name": "t", "run": "x", "report": path}]}))
    assert key == "checks[0].report"
    if path != "x/":
        [(_, _, key, _)] = refused(yaml.safe_dump({"paths": {"protected": [path]}}))
        assert key == "paths.protected[0]"


@pytest.mark.parametrize("name", ["a`b", " a", "a\nb", "a|b", "x" * 61])
def test_a_check_has_a_plain_short_name(name: str) -> None:
    [(_, _, key, _)] = refused(yaml.safe_dump({"checks": [{"name": name, "run": "x"}]}))
    assert key == "checks[0].name"


def test_names_of_checks_are_unique() -> None:
    assert refused("checks:\n  - {name: a, run: x}\n  - {name: a, run: y}\n") == [
        (3, 12, "checks[1].name", "there is another check named `a`")
    ]


def test_the_sandbox_outlasts_the_work_and_every_check() -> None:
    assert refused(
        "sandbox:\n  lifetime: 5m\nlimits: {duration: 6m}\nchecks: [{name: a, run: b, timeout: 7m}]\n"
    ) == [
        (2, 13, "sandbox.lifetime", "`sandbox.lifetime` (5m) must outlast `limits.duration` (6m)"),
        (2, 13, "sandbox.lifetime", "`sandbox.lifetime` (5m) must outlast the longest check (7m)"),
    ]
    [(line, column, key, _)] = refused("limits: {duration: 1h}")
    assert (line, column, key) == (1, 1, "sandbox.lifetime"), "told at the file's start where the key is not in it"


NOT_DEFAULT: dict[tuple[str, ...], Any] = {
    ("sandbox", "idle"): "1h",
    ("verification", "repeat"): 2,
    ("verification", "tests"): ["tests/**"],
    ("verification", "weakened"): "draft",
    ("verification", "unverified"): "draft",
    ("model", "reasoning_effort"): "low",
    ("pull_request", "repair_ci"): 1,
    ("projects",): [{"path": "a", "setup": ["x"], "checks": [{"name": "t", "run": "x"}]}],
}


@pytest.mark.parametrize("key", NOT_YET, ids=".".join)
def test_a_key_nothing_acts_on_is_refused_and_never_ignored(key: tuple[str, ...]) -> None:
    rules: Any = NOT_DEFAULT[key]
    for name in reversed(key):
        rules = {name: rules}
    [(_, _, where, message)] = refused(yaml.safe_dump(rules))
    assert where == ".".join(key)
    assert message == f"`{where}` is not supported by this version of coder-bot; leave it out"


ABOVE = [
    ("sandbox: {memory: 9GiB}", {}, "sandbox.memory", "is 9GiB; whoever runs this bot allows at most 8GiB"),
    ("sandbox: {cpus: 8.5}", {}, "sandbox.cpus", "is 8.5; whoever runs this bot allows at most 8"),
    ("sandbox: {disk: 51GiB}", {}, "sandbox.disk", "at most 50GiB"),
    ("sandbox: {lifetime: 5h}", {}, "sandbox.lifetime", "is 5h; whoever runs this bot allows at most 4h"),
    ("sandbox: {retention: 31d}", {}, "sandbox.retention", "at most 30d"),
    ("limits: {steps: 401}", {}, "limits.steps", "at most 400"),
    ("limits: {tool_calls: 2001}", {}, "limits.tool_calls", "at most 2000"),
    ("limits: {tokens: 20000001}", {}, "limits.tokens", "at most 20000000"),
    ("limits: {duration: 31m}", {"duration": 1800}, "limits.duration", "is 31m"),
    ("limits: {cost: 20.01}", {}, "limits.cost", "is 20.01; whoever runs this bot allows at most 20"),
    ("limits: {attempts: 4}", {"attempts": 3}, "limits.attempts", "at most 3"),
    ("limits: {files: 1001}", {}, "limits.files", "at most 1000"),
    ("limits: {patch: 11MiB}", {}, "limits.patch", "at most 10MiB"),
    ("timeouts: {clone: 2h}", {}, "timeouts.clone", "at most 1h"),
    ("timeouts: {setup: 2h}", {}, "timeouts.setup", "at most 1h"),
    ("timeouts: {command: 2h}", {}, "timeouts.command", "at most 1h"),
    ("timeouts: {tests: 2h}", {}, "timeouts.tests", "at most 1h"),
    ("checks: [{name: a, run: b, timeout: 59m}]", {"command": 600}, "checks[0].timeout", "is 59m"),
    ("sandbox: {image: 'x:1'}", {"images": frozenset({"y:1"})}, "sandbox.image", "image `x:1`; allowed: `y:1`"),
    ("model: {name: b}", {"models": ("openai:a", "chat:c")}, "model.name", "allowed: `chat:c`, `openai:a`"),
    ("model: {name: b}", {"models": ("scripted:/x",)}, "model.name", "does not allow the model `b`"),
    ("commands: {allow: [just]}", {"add_commands": False}, "commands.allow[0]", "does not let repositories allow"),
    ("commands: {allow: [a, npm publish *]}", {"deny_commands": ("npm publish",)}, "commands.allow[1]", "denies"),
    ("network: {setup: [all]}", {}, "network.setup", "`network.setup: [all]` is not allowed"),
    ("network: {checks: [all]}", {"hosts": frozenset({"x.org"})}, "network.checks", "is not allowed"),
    (
        "network: {setup: [npm]}",
        {"hosts": frozenset({"x.org"})},
        "network.setup[0]",
        "`npm` in network lists; allowed",
    ),
    ("network: {checks: [y.org]}", {"hosts": frozenset()}, "network.checks[0]", "does not allow `y.org`"),
]


@pytest.mark.parametrize(("text", "ceilings", "key", "words"), ABOVE, ids=[case[0] for case in ABOVE])
def test_what_is_above_a_ceiling_is_an_error_that_says_what_is_allowed(
    text: str, ceilings: dict[str, Any], key: str, words: str
) -> None:
    extra = b"" if "lifetime" in text or text.startswith("sandbox") else b"\nsandbox: {lifetime: 3h}"
    asked = parse(text.encode() + extra)
    [problem] = over(asked, Ceilings(**ceilings))
    assert (problem.line, problem.column, problem.key) == (0, 0, key)
    assert words in problem.message
    if not key.startswith("network") or "all" not in text:
        binds_nothing = Ceilings(
            **dict.fromkeys(("lifetime", "duration", "retention", "command", "tokens", "steps", "tool_calls"), 10**9),
            **dict.fromkeys(("attempts", "files", "patch", "memory", "disk"), 10**12),
            cost=Decimal(10**6),
            cpus=Decimal(300),
        )
        assert over(asked, binds_nothing) == ()
    else:
        assert over(asked, Ceilings(network_all=True)) == ()


def test_an_allowed_command_that_only_reaches_further_than_a_denied_one_is_no_error() -> None:
    asked = parse(b"commands: {allow: ['npm *', 'just lint']}")
    assert over(asked, Ceilings(deny_commands=("npm publish", "just deploy"))) == ()


@pytest.mark.parametrize(
    ("listed", "entry", "covered"),
    [
        ({"x.org"}, "x.org", True),
        ({"x.org"}, "x.org:443", True),
        ({"x.org"}, "x.org:80", True),
        ({"x.org"}, "x.org:8443", False),
        ({"x.org:8443"}, "x.org:8443", True),
        ({"x.org:8443"}, "x.org", False),
        ({"x.org"}, "a.x.org", False),
        ({"x.org"}, "*.x.org", False),
        ({"*.x.org"}, "a.x.org", True),
        ({"*.x.org"}, "*.a.x.org", True),
        ({"*.x.org"}, "*.x.org", True),
        ({"*.x.org"}, "x.org", False),
        ({"*.x.org"}, "evilx.org", False),
        ({"*.x.org"}, "a.x.org:443", True),
        ({"*.x.org"}, "a.x.org:22", False),
        ({"npm"}, "npm", True),
        ({"npm"}, "pip", False),
        ({"registry.npmjs.org"}, "npm", False),
    ],
)
def test_a_host_is_covered_only_by_what_stands_for_all_of_it(listed: set[str], entry: str, covered: bool) -> None:
    assert covers(listed, entry) is covered


def test_a_model_is_named_by_its_spec_or_by_its_name_alone() -> None:
    specs = ("openai:a", "chat:a", "chat:b:free")
    assert [model_spec(wanted, specs) for wanted in ("a", "chat:a", "b:free", "b", "openai", "openai:b", "")] == [
        "openai:a",
        "chat:a",
        "chat:b:free",
        None,
        None,
        None,
        None,
    ]


def test_grants_only_ever_narrow_and_an_empty_list_grants_nothing() -> None:
    config = parse(b"grants: {fix: [read], ask: []}")
    assert config.grants.model_dump() == {"fix": ("read",), "ask": (), "plan": ("read",)}


texts = st.text(min_size=1, max_size=12).filter(lambda text: text.isprintable() and text.strip() != "")
seconds = st.integers(1, 999_999).map(lambda number: f"{number}s")


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(["a", "b c", "d-é"]), unique=True, max_size=3))
    checks = [
        {"name": name, "run": "x " + draw(st.sampled_from(["-q", "yes", "no: #"])), "timeout": "9s"} for name in names
    ]
    return {
        "enabled": draw(st.booleans()),
        "setup": draw(st.none() | st.lists(texts, max_size=3)),
        "checks": draw(st.none() | st.just(checks)),
        "sandbox": {"lifetime": "300d", "env": draw(st.dictionaries(st.sampled_from(["A", "no", "_1"]), texts))},
        "limits": {"cost": draw(st.integers(0, 10**8)) / 10_000, "duration": draw(seconds), "patch": "3KiB"},
        "timeouts": {"clone": draw(seconds)},
        "pull_request": {"labels": draw(st.lists(texts, max_size=2))},
    }


@settings(max_examples=40, deadline=None)
@given(rules())
def test_any_rules_survive_being_shown_and_read_again(document: dict[str, Any]) -> None:
    config = parse(yaml.safe_dump(document, allow_unicode=True).encode())
    assert config.limits.cost == Decimal(str(document["limits"]["cost"]))
    assert parse(render(config).encode()) == config


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                *WHOLE.splitlines(keepends=True),
                "\t",
                "'",
                '"',
                "[",
                "]",
                "{",
                "}",
                ": ",
                "- ",
                "&a ",
                "*a",
                "!x ",
                "\n",
                "\r",
                "\x85",
                "\u2028",
                "|\n",
                "? ",
                "yes",
                "1e9",
                "0x1f",
                "..",
                "---\n",
                "%YAML",
                "\0",
                "\ufeff",
            ]
        )
        | st.text(max_size=5),
        max_size=12,
    )
)
def test_any_file_is_read_or_refused_with_a_place(parts: list[str]) -> None:
    data = "".join(parts).encode()
    try:
        config = parse(data)
    except ConfigError:
        assert all(line > 0 and column > 0 and message for line, column, _, message in refused(data))
    else:
        assert parse(render(config).encode()) == config
