"""The operator's settings: defaults that follow each other, and limits that are refused where they can't hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot import app
from bot.domain.errors import UserError
from bot.sandbox.protocol import ProviderLimits
from bot.settings import load

DOCKER = ProviderLimits(lifetime_s=None, disk_quota=False)
HOBBY = ProviderLimits(lifetime_s=3600, at_once=20, disk_quota=True)


def test_a_key_chooses_e2b_and_its_template_and_a_setting_overrides_both(tmp_path: Path) -> None:
    plain, keyed = load({}), load({"E2B_API_KEY": "e2b_secret"})
    assert (plain.sandbox, plain.image) == ("docker", "coder-bot-sandbox:latest")
    assert (keyed.sandbox, keyed.image) == ("e2b", "coder-bot-sandbox")
    chosen = load({"E2B_API_KEY": "e2b_secret", "CODER_SANDBOX": "docker", "CODER_IMAGE": "mine:1"})
    assert (chosen.sandbox, chosen.image) == ("docker", "mine:1")
    file = tmp_path / "key"
    file.write_text("e2b_secret\n")
    assert load({"E2B_API_KEY_FILE": str(file)}).secrets == ("e2b_secret",)


def test_e2b_without_a_key_is_refused() -> None:
    with pytest.raises(UserError, match="E2B_API_KEY"):
        app.sandbox_provider(load({"CODER_SANDBOX": "e2b"}))


def test_defaults_follow_the_workers_and_the_provider() -> None:
    docker = app.pool_limits(load({"CODER_WORKERS": "3"}), DOCKER)
    assert (docker.at_once, docker.reserved, docker.lifetime_s) == (8, 2, 4 * 3600)
    hobby = app.pool_limits(load({"E2B_API_KEY": "k", "CODER_WORKERS": "30"}), HOBBY)
    assert (hobby.at_once, hobby.lifetime_s) == (20, 3600)
    assert app.ceilings(load({}), hobby).lifetime == 3600
    assert app.pool_limits(load({"CODER_MAX_SANDBOXES": "2"}), DOCKER).reserved == 1


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("CODER_MAX_LIFETIME", "3601", "CODER_MAX_LIFETIME is 3601, but e2b ends a sandbox after 3600 seconds"),
        ("CODER_MAX_SANDBOXES", "21", "CODER_MAX_SANDBOXES is 21, but e2b runs at most 20 at once"),
        ("CODER_RESERVED_SANDBOXES", "10", "CODER_RESERVED_SANDBOXES is 10, which leaves none of 10"),
    ],
)
def test_limits_above_the_providers_are_refused_with_the_setting_to_change(name: str, value: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        app.pool_limits(load({"E2B_API_KEY": "k", name: value}), HOBBY)


def test_a_network_that_the_provider_can_not_hold_is_refused() -> None:
    closed = ProviderLimits(lifetime_s=None, disk_quota=True, networks=frozenset({"none"}))
    with pytest.raises(UserError, match="CODER_NETWORK is allowlist"):
        app.pool_limits(load({}), closed)
    limits = app.pool_limits(load({"CODER_NETWORK": "none"}), closed)
    assert (limits.networks, limits.origins) == (frozenset({"none"}), frozenset({"github.com"}))
    own = load({"GITHUB_API_URL": "https://github.example:8443/api/v3"})
    assert app.pool_limits(own, DOCKER).origins == frozenset({"github.example:8443"})


@pytest.mark.parametrize("name", ["CODER_MAX_SANDBOXES", "CODER_RESERVED_SANDBOXES", "CODER_MAX_EXEC"])
def test_a_limit_has_to_be_a_sensible_number(name: str) -> None:
    with pytest.raises(UserError, match=name):
        load({name: "0"})


LISTS = {
    "CODER_MODELS": "openai:small, chat:local",
    "CODER_DENY_COMMANDS": "npm publish *; git push\nmake deploy",
    "CODER_NETWORK_HOSTS": "npm, *.Example.org , x.org:8443",
}


def test_ceilings_are_what_the_operator_set() -> None:
    amounts = {
        "CODER_MAX_RETENTION": "3600",
        "CODER_MAX_ATTEMPTS": "2",
        "CODER_MAX_FILES": "7",
        "CODER_MAX_PATCH": "2048",
        "CODER_MAX_STEPS": "9",
        "CODER_MAX_TOOL_CALLS": "11",
        "CODER_MAX_TOKENS": "1000",
        "CODER_MAX_CPUS": "1.5",
        "CODER_MAX_EXEC": "77",
    }
    settings = load({"CODER_MODEL": "openai:big", "CODER_ALLOW_COMMANDS": "no", **LISTS, **amounts})
    found = app.ceilings(settings, app.pool_limits(settings, DOCKER))
    assert (found.retention, found.attempts, found.files, found.patch) == (3600, 2, 7, 2048)
    assert (found.steps, found.tool_calls, found.tokens, str(found.cpus), found.command) == (9, 11, 1000, "1.5", 77)
    assert found.models == ("openai:big", "openai:small", "chat:local")
    assert found.deny_commands == ("npm publish *", "git push", "make deploy")
    assert found.hosts == {"npm", "*.example.org", "x.org:8443"}
    assert not found.add_commands


def test_without_settings_a_repository_has_the_operators_model_only_and_any_host() -> None:
    settings = load({"CODER_MODEL": "openai:big"})
    found = app.ceilings(settings, app.pool_limits(settings, DOCKER))
    assert (found.models, found.hosts, found.deny_commands, found.add_commands) == (("openai:big",), None, (), True)


async def test_a_repository_has_the_model_it_names_only_if_it_may() -> None:
    keyed = {"OPENAI_API_KEY": "k" + "0" * 20, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    settings = load({"CODER_MODEL": "openai:big", "CODER_MODELS": "chat:local", **keyed})
    wishes = {None: "openai:big", "big": "openai:big", "local": "chat:local", "chat:local": "chat:local"}
    for wanted, name in wishes.items():
        model = app.model(settings, wanted)
        assert model.name == name
        await model.aclose()
    for wanted in ("small", "openai:local", "scripted:/etc/passwd"):
        with pytest.raises(UserError, match="CODER_MODELS"):
            app.model(settings, wanted)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("CODER_DENY_COMMANDS", "*", "a lone"),
        ("CODER_DENY_COMMANDS", "a && b", "a shell would act on"),
        ("CODER_NETWORK_HOSTS", "https://x.org", "expected `example.org`"),
        ("CODER_MODELS", "big", "names no model"),
        ("CODER_ALLOW_COMMANDS", "perhaps", "bool"),
        ("CODER_MAX_ATTEMPTS", "0", "greater than or equal"),
        ("CODER_MAX_CPUS", "NaN", "finite number"),
    ],
)
def test_a_ceiling_that_means_nothing_is_refused_by_its_name(name: str, value: str, words: str) -> None:
    with pytest.raises(UserError, match=name) as caught:
        load({name: value})
    assert words in str(caught.value)
