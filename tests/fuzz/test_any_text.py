"""Whatever strangers send is read or refused: nothing that takes their text raises anything but what it says it does.

`make fuzz` tries more of it. CODER_FUZZ_SEED picks other examples, CODER_FUZZ_EXAMPLES how many of each kind."""

from __future__ import annotations

import json
import os
from contextlib import suppress

from hypothesis import given, seed, settings
from hypothesis import strategies as st

from bot.domain import command, config
from bot.domain.command import Command, Usage
from bot.domain.commands_policy import Allowed, Policy, Refused, rule_problem
from bot.domain.config import Config, ConfigError, Problem
from bot.domain.errors import UserError
from bot.domain.event import Event
from bot.domain.presets import PRESETS
from bot.domain.redaction import Redactor
from bot.domain.words import leads_out
from bot.github import webhook

SEED = int(os.environ.get("CODER_FUZZ_SEED", "1"))
EXAMPLES = int(os.environ.get("CODER_FUZZ_EXAMPLES", "100"))

# Also halves of surrogate pairs: they come out of JSON, and out of file names that are no UTF-8.
ANYTHING = st.text(st.characters(exclude_categories=())) | st.binary().map(
    lambda data: data.decode("utf-8", "surrogateescape")
)


def mixed(*pieces: str) -> st.SearchStrategy[str]:
    """Text that looks much like what is meant to be read, with anything in between."""
    return st.lists(st.sampled_from(pieces) | ANYTHING, max_size=12).map("".join)


LINES = mixed(
    *"'\"\\ $`;&|<>(){}[]*?~#!-=/.@,:", "--", "..", " -", *{" ".join(preset.words) + " " for preset in PRESETS}
)
COMMENTS = mixed(
    "/coder ", "fix ", "ask", "\n", "\r\n", "```", "~~~", "    ", "> ", "<!--", "-->", "<details>", "`", "@coder", "|"
)
YAML = mixed(
    *(
        "version: 1",
        "\n",
        "  ",
        "- ",
        ": ",
        "[",
        "]",
        "{",
        "}",
        "&a ",
        "*a",
        "<<: ",
        "!!python/object ",
        "|",
        ">",
        "'",
        '"',
        "\t",
    ),
    *(f"{name}: " for name in Config.model_fields),
    *(
        "~",
        "off",
        "1e999",
        ".nan",
        "0x1",
        "1:2",
        "null",
        "allow: ['npm *']",
        "# x",
        "---\n",
        "...\n",
        "%YAML 9.9\n",
        "? ",
    ),
)
KEYS = """
action installation repository sender issue comment pull_request review id login type name full_name number title
body user created_at updated_at author_association owner default_branch html_url state label labels head base ref sha
merged archived private
"""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANYTHING,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS.split()) | ANYTHING, inner, max_size=8)
    ),
    max_leaves=20,
)
EVENTS = st.sampled_from([*webhook._READERS, ("ping", ""), ("push", "")])

fuzz = settings(max_examples=EXAMPLES)


@seed(SEED)
@fuzz
@given(LINES, LINES)
def test_any_line_is_allowed_or_refused(line: str, rule: str) -> None:
    try:
        policy = Policy.of(allow=["say *", rule], deny=[rule + " x"])
    except UserError:
        assert rule_problem(rule) or rule_problem(rule + " x")
        policy = Policy.of(allow=["say *"])
    for text in (line, f"say {line}"):
        decision = policy.decide(text)
        assert isinstance(decision, Allowed | Refused)
        assert decision.rule
        if isinstance(decision, Refused):
            assert decision.reason.endswith(".")
            "".join([decision.reason, decision.hint or "", decision.rule]).encode()
    assert policy.words(line)
    assert leads_out(line) in (True, False)


@seed(SEED)
@fuzz
@given(COMMENTS | ANYTHING)
def test_any_comment_gives_a_command_or_none(body: str) -> None:
    found = command.parse(body)
    assert found is None or isinstance(found, Command | Usage)


@seed(SEED)
@fuzz
@given(YAML.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary())
def test_any_file_is_a_config_or_has_errors_with_their_place(data: bytes) -> None:
    problems: tuple[Problem, ...] | None = None
    try:
        config.parse(data)
    except ConfigError as exc:
        problems = exc.problems
    assert problems is None or problems
    assert all(problem.line >= 1 and problem.column >= 1 and problem.message for problem in problems or ())


@seed(SEED)
@fuzz
@given(EVENTS, ANYTHING, JSON, st.binary())
def test_any_delivery_is_an_event_or_malformed(known: tuple[str, str], other: str, value: object, raw: bytes) -> None:
    name, action = known
    given_by_us = {"action": action, "installation": {"id": 1}}
    values = (
        [value, given_by_us | {"x": value}, given_by_us | value | {"action": action}]
        if isinstance(value, dict)
        else [value]
    )
    for event in (name, other):
        for body in (raw, *(json.dumps(item).encode() for item in values)):
            with suppress(webhook.Malformed):
                assert isinstance(webhook.parse(event, body), Event)


@seed(SEED)
@fuzz
@given(st.text(), st.binary(), ANYTHING)
def test_any_signature_is_right_or_wrong(secret: str, body: bytes, signature: str) -> None:
    assert webhook.verify(secret, body, signature) is False
    assert webhook.verify(secret, body, None) is False


@seed(SEED)
@fuzz
@given(
    st.lists(ANYTHING, max_size=4),
    st.lists(ANYTHING, max_size=4),
    st.sampled_from(["", " ", "\n", "ghs_", "%", "\\"]),
)
def test_any_text_can_be_redacted_of_any_secrets(secrets: list[str], texts: list[str], between: str) -> None:
    redactor = Redactor(secrets)
    once = redactor.redact(between.join([*texts, *secrets]))
    assert redactor.redact(once) == once
