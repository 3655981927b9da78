"""The line to an OpenAI-compatible server: requests out, JSON objects in, the vendor's errors turned into ours."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import httpx

from bot.domain.errors import ModelError, UserError
from bot.llm.reading import parse_json

if TYPE_CHECKING:
    import openai

OPENAI = "https://api.openai.com/v1"
CONNECT_TIMEOUT_S = 10.0
"""How long a server may take to accept a connection; a reply may take as long as its caller allows."""


class ParameterRefused(ModelError):
    """The server knows the request's `parameter` but this model does not have it."""

    def __init__(self, message: str, *, parameter: str) -> None:
        super().__init__("invalid_request", message)
        self.parameter = parameter


class Connection:
    """Opened with the first request, so that neither importing nor constructing costs anything; after `aclose` the
    next request opens it again."""

    def __init__(self, *, api_key: str, base_url: str, max_retries: int) -> None:
        # A header can't hold these, and the error that httpx makes of them would quote the key.
        if not api_key or not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
            raise UserError("The model's API key is empty or holds characters that no key has; set OPENAI_API_KEY.")
        if not _is_address(base_url):
            raise UserError("OPENAI_BASE_URL must be an address like https://models.example.com/v1.")
        self._api_key = api_key
        self._base_url = base_url
        self._max_retries = max_retries
        self._client: openai.AsyncOpenAI | None = None

    async def post(self, path: str, body: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """The JSON object that answers, exactly as it came. All retries together end within `timeout_s`."""
        import openai  # half a second: not for those who only look at the command line's help

        client = self._open()
        patience = httpx.Timeout(None, connect=CONNECT_TIMEOUT_S)
        try:
            async with asyncio.timeout(timeout_s):
                response: httpx.Response = await client.post(  # type: ignore[call-overload]  # an httpx2 time-out
                    path, cast_to=httpx.Response, body=body, options={"timeout": patience}
                )
        except TimeoutError as exc:
            raise ModelError(
                "unavailable", f"The model did not answer within {timeout_s:g} seconds.", retryable=True
            ) from exc
        except openai.APIStatusError as exc:
            raise _refusal(exc, str(body["model"])) from exc
        except openai.OpenAIError as exc:
            raise ModelError(
                "unavailable",
                "The model's provider could not be reached; see to OPENAI_BASE_URL and the network.",
                retryable=True,
            ) from exc
        try:
            answer = parse_json(response.content)
        except ValueError as exc:
            raise _no_api() from exc
        if not isinstance(answer, dict):
            raise _no_api()
        return answer

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _open(self) -> openai.AsyncOpenAI:
        if self._client is None:
            import openai

            # openai 3 would bring httpx2, a second HTTP library. It takes httpx too, which its types don't say.
            self._client = openai.AsyncOpenAI(
                api_key=self._api_key,
                base_url=self._base_url,
                max_retries=self._max_retries,
                http_client=httpx.AsyncClient(),  # type: ignore[arg-type]  # see above
            )
        return self._client


def _is_address(text: str) -> bool:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        return False
    return url.scheme in ("http", "https") and bool(url.host)


def _no_api() -> ModelError:
    return ModelError(
        "unusable_reply",
        "The model's provider did not answer in the form of OpenAI's API; see whether OPENAI_BASE_URL is right "
        "(most servers want it to end in /v1).",
    )


def _refusal(exc: openai.APIStatusError, model: str) -> ModelError:
    """Our words for an HTTP status; the provider's own text only helps to tell the cases apart."""
    said = str(exc.body).lower()
    match exc.status_code:
        case 401:
            return ModelError("authentication", "The model's provider refused the API key; set OPENAI_API_KEY.")
        case 403:
            return ModelError(
                "authentication",
                f"The API key may not use the model {model}; set another OPENAI_API_KEY or CODER_MODEL.",
            )
        case 404:
            return ModelError(
                "invalid_request",
                f"The provider has no model {model}, or no such API; see to CODER_MODEL and OPENAI_BASE_URL.",
            )
        case 400 | 413 | 422 if exc.status_code == 413 or any(sign in said for sign in _TOO_LONG):
            return ModelError(
                "context_length",
                f"The conversation has grown beyond what the model {model} can read; give a smaller task or set "
                "CODER_MODEL to a model with a larger context.",
            )
        case 429 if "insufficient_quota" in said:
            return ModelError(
                "rate_limited",
                "The account at the model's provider has no credit left; top it up or raise its limit.",
            )
        case 429:
            return ModelError("rate_limited", "The model's provider asks to slow down.", retryable=True)
        case status if status >= 500 or status in (408, 409):
            return ModelError(
                "unavailable", f"The model's provider has a problem of its own (HTTP {status}).", retryable=True
            )
        case 400 if "encrypted content is not supported" in said:
            return ParameterRefused(f"The model {model} does not reason.", parameter="include")
        case 400 if (parameter := str(exc.param).partition(".")[0]) in _OPTIONS:
            return ParameterRefused(
                f"The model {model} does not take {parameter} as given; see to CODER_MODEL and the reasoning effort.",
                parameter=parameter,
            )
        case status:
            return ModelError(
                "invalid_request",
                f"The model's provider refused the request (HTTP {status}); see whether the model {model} can call "
                "tools and takes the reasoning effort asked for.",
            )


_OPTIONS = ("reasoning", "reasoning_effort", "max_output_tokens", "max_completion_tokens", "max_tokens")

_TOO_LONG = (
    "context_length_exceeded",  # OpenAI, and most who follow it
    "exceed_context_size",  # llama.cpp
    "context length",  # vLLM and others, in their message alone
    "context window",
)
