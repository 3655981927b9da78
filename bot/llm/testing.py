"""The models' contract as tests: an adapter inherits one of these classes and supplies the fixture."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import pytest
from pydantic import TypeAdapter

from bot.domain.budget import Usage
from bot.domain.errors import ModelError, ModelReason
from bot.llm.protocol import Message, Model, Reply, ToolResult, ToolSpec, UserMessage

LIMIT = 321
"""The `max_output_tokens` of every call the contract makes."""

SEARCH = ToolSpec(
    name="search",
    description="Search files for a pattern.",
    parameters={
        "type": "object",
        "title": "Search",
        "properties": {
            "pattern": {"type": "string", "minLength": 1, "title": "Pattern"},
            "path": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "description": "Where."},
            "limit": {"type": "integer", "default": 5},
        },
        "required": ["pattern"],
        "additionalProperties": False,
    },
)
SUBMIT = ToolSpec(
    name="submit", description="Be done.", parameters={"type": "object", "properties": {}, "required": []}
)

Plan = Callable[..., Callable[[], Model]]
"""Takes the replies that shall come; gives back a function that makes the model."""

Calls = tuple[tuple[str, dict[str, Any] | None], ...]

_replies = TypeAdapter(Reply)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One reply that the model under test will be made to give; arguments of None stand for broken JSON. `expects` is
    a regular expression that the last tool result sent before it must match."""

    text: str = ""
    tool_calls: Calls = ()
    usage: Usage = field(default_factory=lambda: Usage(input_tokens=7, output_tokens=3))
    expects: str | None = None


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A reply with something about it that servers do: counting tokens less well, or ending before it was whole.
    `last_arguments` is what the last call's arguments then happen to be."""

    reply: Planned
    usage: Literal["detailed", "plain", "none", "nonsense"] = "detailed"
    ending: Literal["whole", "cut", "withheld"] = "whole"
    last_arguments: str | None = None


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """An HTTP answer that is no reply."""

    status: int
    code: str | None = None
    text: str = "vendor-text-7731"
    param: str | None = None
    body: str | None = None
    """Sent as it stands, in place of an error object."""
    content_type: str = "application/json"


@dataclass(frozen=True, kw_only=True)
class Silence:
    """No answer until the client goes away."""


Answer = Planned | Variant | Trouble | Silence


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the server understood of one request it accepted."""

    model: str
    system: str
    max_output_tokens: int
    tools: tuple[str, ...]
    replies: tuple[tuple[dict[str, Any], ...], ...]
    """The model's own former replies, as the items they came back as."""


class Server(Protocol):
    """A strict server that answers a remote model in its own API: it refuses what its API would refuse."""

    seen: list[Seen]
    given: list[tuple[dict[str, Any], ...]]
    """The items of each reply it gave."""
    attempts: int
    """Requests that reached it, refused ones too."""
    asked: asyncio.Event
    """Set when a request arrives that it is silent to."""
    gone: asyncio.Event
    """Set when the client of such a request has gone away."""

    def will(self, *answers: Answer) -> None: ...


async def ask(
    model: Model, *messages: Message, tools: Sequence[ToolSpec] = (SEARCH, SUBMIT), timeout_s: float = 20
) -> Reply:
    return await model.reply(
        system="Fix it.", messages=messages, tools=tools, max_output_tokens=LIMIT, timeout_s=timeout_s
    )


TASK = UserMessage(text="Please mend add().")


class ModelContract:
    """What every model does. The fixture `plan` takes the replies that shall come and gives back a function that
    makes the model; two models made by it are as one model before and after a restart."""

    async def test_it_answers_with_text(self, plan: Plan) -> None:
        reply = await ask(plan(Planned(text="Hello.\nWorld: ü✓"))(), TASK)
        assert (reply.text, reply.tool_calls) == ("Hello.\nWorld: ü✓", ())

    async def test_it_asks_for_tools_under_ids_of_their_own(self, plan: Plan) -> None:
        calls: Calls = (("search", {"pattern": "a"}), ("search", {"pattern": "a"}), ("submit", {}))
        reply = await ask(plan(Planned(text="Looking.", tool_calls=calls))(), TASK)
        assert reply.text == "Looking."
        assert [(call.name, call.arguments) for call in reply.tool_calls] == list(calls)
        assert len({call.id for call in reply.tool_calls} - {""}) == 3

    async def test_it_counts_tokens(self, plan: Plan) -> None:
        reply = await ask(plan(Planned(text="x", usage=Usage(input_tokens=1200, output_tokens=30)))(), TASK)
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (1200, 30)

    async def test_tool_results_reach_the_model(self, plan: Plan) -> None:
        model = plan(
            Planned(tool_calls=(("search", {"pattern": "a"}), ("search", {"pattern": "b"}))),
            Planned(text="Done.", expects="^found b$"),
        )()
        first = await ask(model, TASK)
        one, two = first.tool_calls
        results = ToolResult(call_id=one.id, text="found a"), ToolResult(call_id=two.id, text="found b")
        assert (await ask(model, TASK, first, *results)).text == "Done."

    async def test_a_saved_transcript_goes_on_with_another_instance(self, plan: Plan) -> None:
        make = plan(Planned(tool_calls=(("submit", {}),)), Planned(text="Again.", expects="refused"))
        first = await ask(make(), TASK)
        saved = _replies.validate_json(_replies.dump_json(first))
        assert saved == first
        result = ToolResult(call_id=saved.tool_calls[0].id, text="refused")
        reply = await ask(make(), TASK, saved, result, UserMessage(text="Go on."))
        assert reply.text == "Again."

    async def test_arguments_that_are_no_object_are_none_and_the_transcript_goes_on(self, plan: Plan) -> None:
        model = plan(Planned(tool_calls=(("search", None), ("submit", {}))), Planned(text="Sorry."))()
        first = await ask(model, TASK)
        assert [call.arguments for call in first.tool_calls] == [None, {}]
        results = [ToolResult(call_id=call.id, text="no") for call in first.tool_calls]
        assert (await ask(model, TASK, first, *results)).text == "Sorry."

    async def test_having_nothing_more_to_say_is_an_error_that_stays(self, plan: Plan) -> None:
        model = plan(Planned(text="One."))()
        first = await ask(model, TASK)
        with pytest.raises(ModelError) as caught:
            await ask(model, TASK, first, UserMessage(text="Go on."))
        assert not caught.value.retryable

    async def test_closing_twice_is_harmless(self, plan: Plan) -> None:
        model = plan(Planned(text="One."))()
        await ask(model, TASK)
        await model.aclose()
        await model.aclose()


class RemoteModelContract(ModelContract):
    """What every model behind a network does as well. The fixture `server` answers the models that `plan` makes, with
    `max_retries` 2; the name of the model is `model-1`."""

    async def test_the_request_says_what_was_asked_for(self, plan: Plan, server: Server) -> None:
        model = plan(Planned(text="Hello."))()
        await ask(model, TASK)
        assert server.seen == [
            Seen(model="model-1", system="Fix it.", max_output_tokens=LIMIT, tools=("search", "submit"), replies=())
        ]

    async def test_it_works_without_tools(self, plan: Plan, server: Server) -> None:
        assert (await ask(plan(Planned(text="Hello."))(), TASK, tools=())).text == "Hello."
        assert server.seen[0].tools == ()

    async def test_its_own_items_go_back_verbatim(self, plan: Plan, server: Server) -> None:
        model = plan(Planned(text="Hm.", tool_calls=(("submit", {}),)), Planned(text="Done."))()
        first = await ask(model, TASK)
        await ask(model, TASK, first, ToolResult(call_id=first.tool_calls[0].id, text="ok"))
        assert server.seen[-1].replies == (server.given[0],)

    async def test_replies_of_another_adapter_are_understood(self, plan: Plan, server: Server) -> None:
        model = plan(Planned(text="Done.", expects="ok"))()
        foreign = _replies.validate_python(
            {
                "text": "Hm.",
                "tool_calls": [{"id": "call-1-1", "name": "search", "arguments": {"pattern": "a"}}],
                "raw": [{"role": "assistant", "kind": "foreign"}, {"type": "foreign"}],
            }
        )
        assert (await ask(model, TASK, foreign, ToolResult(call_id="call-1-1", text="ok"))).text == "Done."

    async def test_an_optional_argument_that_is_null_was_not_given(self, plan: Plan) -> None:
        arguments = {"pattern": None, "path": None, "limit": 3}
        reply = await ask(plan(Planned(tool_calls=(("search", arguments), ("unknown", arguments))))(), TASK)
        assert [call.arguments for call in reply.tool_calls] == [{"pattern": None, "limit": 3}, arguments]

    async def test_cached_tokens_are_counted_where_the_server_tells(self, plan: Plan, server: Server) -> None:
        model = plan()()
        said = Planned(text="x", usage=Usage(input_tokens=1200, output_tokens=30, cached_tokens=1024))
        server.will(Variant(reply=said), Variant(reply=said, usage="plain"))
        assert (await ask(model, TASK)).usage == said.usage
        assert (await ask(model, TASK)).usage == Usage(input_tokens=1200, output_tokens=30)

    async def test_no_more_tokens_are_cached_than_were_sent(self, plan: Plan) -> None:
        usage = Usage(input_tokens=10, output_tokens=1, cached_tokens=99)
        reply = await ask(plan(Planned(text="x", usage=usage))(), TASK)
        assert reply.usage == Usage(input_tokens=10, output_tokens=1, cached_tokens=10)

    @pytest.mark.parametrize("usage", ["none", "nonsense"])
    async def test_tokens_that_were_not_counted_are_estimated(
        self, plan: Plan, server: Server, usage: Literal["none", "nonsense"]
    ) -> None:
        model = plan()()
        server.will(Variant(reply=Planned(text="word " * 400), usage=usage))
        reply = await ask(model, UserMessage(text="word " * 4000))
        assert reply.usage.input_tokens > 4000
        assert reply.usage.output_tokens > 400

    @pytest.mark.parametrize("arguments", ['{"pattern": "a', '{"pattern": "a"}'])
    async def test_the_call_at_which_a_reply_was_cut_has_no_arguments(
        self, plan: Plan, server: Server, arguments: str
    ) -> None:
        model = plan()()
        calls: Calls = (("search", {"pattern": "whole"}), ("search", {}))
        server.will(Variant(reply=Planned(tool_calls=calls), ending="cut", last_arguments=arguments))
        reply = await ask(model, TASK)
        assert [call.arguments for call in reply.tool_calls] == [{"pattern": "whole"}, None]
        server.will(Planned(text="Shorter now.", expects="cut"))
        results = [ToolResult(call_id=call.id, text="cut") for call in reply.tool_calls]
        assert (await ask(model, TASK, reply, *results)).text == "Shorter now."

    async def test_a_reply_cut_before_it_said_anything_is_unusable(self, plan: Plan, server: Server) -> None:
        model = plan()()
        server.will(Variant(reply=Planned(), ending="cut"))
        await _fails(model, "unusable_reply", retryable=False)

    async def test_a_text_that_was_cut_is_still_a_reply_to_go_on_from(self, plan: Plan, server: Server) -> None:
        model = plan()()
        server.will(Variant(reply=Planned(text="First, I w"), ending="cut"), Planned(text="ould."))
        first = await ask(model, TASK)
        assert first.text == "First, I w"
        assert (await ask(model, TASK, first, UserMessage(text="Go on."))).text == "ould."

    async def test_a_reply_that_was_held_back_is_unusable(self, plan: Plan, server: Server) -> None:
        model = plan()()
        server.will(Variant(reply=Planned(text="x"), ending="withheld"))
        await _fails(model, "unusable_reply", retryable=False)

    async def test_an_empty_reply_can_be_answered(self, plan: Plan) -> None:
        model = plan(Planned(), Planned(text="Here I am."))()
        first = await ask(model, TASK)
        assert (first.text, first.tool_calls) == ("", ())
        assert (await ask(model, TASK, first, UserMessage(text="Go on."))).text == "Here I am."

    async def test_half_a_character_does_not_reach_us(self, plan: Plan) -> None:
        broken = {"pattern": "\ud83d"}
        reply = await ask(plan(Planned(text="Oh \ud83d", tool_calls=(("search", broken),)))(), TASK)
        assert (reply.text, reply.tool_calls[0].arguments) == ("Oh ?", {"pattern": "?"})

    @pytest.mark.parametrize(
        ("trouble", "reason", "retryable", "sentence"),
        [
            (Trouble(status=401, code="invalid_api_key"), "authentication", False, "set OPENAI_API_KEY"),
            (Trouble(status=403), "authentication", False, "OPENAI_API_KEY"),
            (Trouble(status=404, code="model_not_found"), "invalid_request", False, "CODER_MODEL"),
            (Trouble(status=400, code="context_length_exceeded"), "context_length", False, "context"),
            (Trouble(status=400, text="maximum context length is 8"), "context_length", False, "context"),
            (Trouble(status=400, text="beyond the context window"), "context_length", False, "context"),
            (Trouble(status=400, code="exceed_context_size_error"), "context_length", False, "context"),
            (Trouble(status=413, body="<html>", content_type="text/html"), "context_length", False, "context"),
            (Trouble(status=400, param="reasoning.effort"), "invalid_request", False, "reasoning"),
            (Trouble(status=400, body="[]"), "invalid_request", False, "HTTP 400"),
            (Trouble(status=422, code="other", param="input"), "invalid_request", False, "HTTP 422"),
            (Trouble(status=429, code="insufficient_quota"), "rate_limited", False, "credit"),
            (Trouble(status=429, code="rate_limit_exceeded"), "rate_limited", True, "slow down"),
            (Trouble(status=500), "unavailable", True, "HTTP 500"),
            (
                Trouble(status=502, body="<html>vendor-text-7731", content_type="text/html"),
                "unavailable",
                True,
                "502",
            ),
            (Trouble(status=503, code="overloaded"), "unavailable", True, "HTTP 503"),
            (
                Trouble(status=200, body="<html>hi", content_type="text/html"),
                "unusable_reply",
                False,
                "OPENAI_BASE_URL",
            ),
            (Trouble(status=200, body='{"output": ['), "unusable_reply", False, "OPENAI_BASE_URL"),
            (Trouble(status=200, body="[1]"), "unusable_reply", False, "OPENAI_BASE_URL"),
            (Trouble(status=200, body="[" * 100_000), "unusable_reply", False, "OPENAI_BASE_URL"),
            (Trouble(status=200, body="{}"), "unusable_reply", False, "no form"),
            (Trouble(status=200, body='{"output": [7], "choices": []}'), "unusable_reply", False, "no form"),
        ],
        ids=lambda value: (
            f"{value.status}-{value.code or value.param or (value.body or 'text')[:9]}"
            if isinstance(value, Trouble)
            else ""
        ),
    )
    async def test_troubles_are_told_apart_in_our_own_words(
        self, plan: Plan, server: Server, trouble: Trouble, reason: ModelReason, retryable: bool, sentence: str
    ) -> None:
        model = plan()()
        server.will(*[trouble] * 3)  # as often as it is tried
        error = await _fails(model, reason, retryable=retryable)
        assert sentence in str(error)
        assert "vendor-text" not in str(error)

    async def test_passing_troubles_are_tried_again(self, plan: Plan, server: Server) -> None:
        model = plan()()
        server.will(Trouble(status=429), Trouble(status=503), Planned(text="At last."))
        assert (await ask(model, TASK)).text == "At last."
        assert server.attempts == 3

    async def test_lasting_troubles_are_not_tried_again(self, plan: Plan, server: Server) -> None:
        model = plan()()
        server.will(Trouble(status=401), Planned(text="Never asked for."))
        await _fails(model, "authentication", retryable=False)
        assert server.attempts == 1

    async def test_a_model_that_stays_silent_is_unavailable(self, plan: Plan, server: Server) -> None:
        model = plan()()
        server.will(Silence(), Planned(text="Back."))
        error = await _fails(model, "unavailable", retryable=True, timeout_s=0.5)
        assert "0.5 seconds" in str(error)
        await server.gone.wait()
        assert (await ask(model, TASK)).text == "Back."

    async def test_a_cancelled_call_hangs_up_and_leaves_the_model_usable(self, plan: Plan, server: Server) -> None:
        model = plan()()
        server.will(Silence(), Planned(text="Back."))
        call = asyncio.create_task(ask(model, TASK))
        await server.asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await server.gone.wait()
        assert (await ask(model, TASK)).text == "Back."


async def _fails(model: Model, reason: ModelReason, *, retryable: bool, timeout_s: float = 20) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(model, TASK, timeout_s=timeout_s)
    assert (caught.value.reason, caught.value.retryable) == (reason, retryable)
    return caught.value
