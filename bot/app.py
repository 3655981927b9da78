"""The composition root: the one place that picks Docker, SQLite or Postgres, and which model."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote, urlsplit

import structlog
from fastapi import FastAPI

from bot import signing
from bot.db import migrate
from bot.db.store import Store
from bot.domain.attestation import Signer
from bot.domain.budget import FREE, Price
from bot.domain.ceilings import Ceilings, model_spec
from bot.domain.errors import UserError
from bot.domain.redaction import Redactor
from bot.domain.task import Job, Postponed
from bot.engine.embedded import EmbeddedEngine, exclusive
from bot.github.auth import App
from bot.llm import prices
from bot.llm.protocol import Model
from bot.llm.spec import parse_spec
from bot.pipeline import reconcile, stages
from bot.pipeline.deliveries import Missed
from bot.pipeline.deps import Deps
from bot.sandbox.credentials import load_credentials
from bot.sandbox.pool import PooledProvider, PoolLimits
from bot.sandbox.protocol import Network, ProviderLimits, SandboxProvider
from bot.settings import Settings
from bot.web import metrics, server

RECONCILE_S = 300.0
LIFETIME_S = 4 * 3600
"""The longest life of a sandbox where neither the operator nor the provider says less."""

log = structlog.get_logger()


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class Bot:
    """The running product: what listens, and what works."""

    settings: Settings
    deps: Deps
    engine: EmbeddedEngine
    missed: Missed
    web: FastAPI
    metrics: FastAPI

    async def work(self) -> None:
        """Works until cancelled, beginning with what an earlier process left undone."""
        await self.engine.recover()
        async with asyncio.TaskGroup() as group:
            group.create_task(_look("missed deliveries", self.missed.look))
            group.create_task(self.engine.serve())
            group.create_task(_look("reconcile", lambda: reconcile.run(self.deps)))


async def _look(name: str, look: Callable[[], Awaitable[None]]) -> None:
    """Now and every few minutes; each look by itself, so that none waits for what another one asks for."""
    while True:
        try:
            await look()
        except Exception:
            # One failed look must not end the work of all tasks; the next look comes.
            log.exception(f"{name} failed")
        await asyncio.sleep(RECONCILE_S)


@asynccontextmanager
async def open_bot(
    settings: Settings,
    *,
    clock: Callable[[], datetime] = utc_now,
    redactor: Redactor | None = None,
    signer: Signer | None = None,
) -> AsyncIterator[Bot]:
    """Everything wired and migrated; nothing works before `Bot.work`. One process at a time for each home. The
    redactor, if the process has one already, comes to know all our secrets. Receipts are signed with the home's key,
    made if there is none, unless another signer is given."""
    redactor = redactor or Redactor()
    redactor.keep(known_secrets(settings))
    settings.coder_home.mkdir(parents=True, exist_ok=True)
    with exclusive(settings.coder_home):
        await migrate.upgrade(settings.database_url)
        async with contextlib.AsyncExitStack() as stack:
            store = Store(settings.database_url)
            stack.push_async_callback(store.aclose)
            provider = sandbox_provider(settings)
            stack.push_async_callback(provider.aclose)
            yield _wire(settings, store, provider, clock, redactor, signer)


def _wire(
    settings: Settings,
    store: Store,
    provider: SandboxProvider,
    clock: Callable[[], datetime],
    redactor: Redactor,
    signer: Signer | None,
) -> Bot:
    async def run(job: Job) -> Postponed | None:
        return await stages.run(deps, job)

    async def give_up(job: Job, error: Exception) -> None:
        await stages.give_up(deps, job, error)

    engine = EmbeddedEngine(store, run=run, give_up=give_up, clock=clock, workers=settings.coder_workers)
    limits = pool_limits(settings, provider.limits)
    pool = PooledProvider(provider, store, limits, clock=clock, on_free=engine.freed)
    secret = settings.github_webhook_secret
    if secret is None or not secret.get_secret_value():
        raise UserError("GITHUB_WEBHOOK_SECRET is not set; it is the secret of your GitHub App's webhook.")
    github = github_app(settings, clock=clock, learn=redactor.learn)
    deps = Deps(
        store=store,
        engine=engine,
        provider=pool,
        github=github,
        model=lambda wanted: model(settings, wanted),
        redactor=redactor,
        signer=signer or signing.load(settings, origin=github.origin),
        clock=clock,
        new_id=lambda: uuid.uuid4().hex[:12],
        image=settings.image,
        ceilings=ceilings(settings, limits),
        snapshot_disk=settings.coder_snapshot_disk,
        bot_version=version("coder-bot"),
    )

    async def ready() -> str | None:
        await store.next_run()
        return None

    web = server.create(
        store=store,
        secret=secret.get_secret_value(),
        wake=engine.wake,
        ready=ready,
        clock=clock,
        keys=lambda: signing.document(signing.known(settings)),
    )
    missed = Missed(store, github, clock)
    numbers = metrics.create(store.tally)
    return Bot(settings=settings, deps=deps, engine=engine, missed=missed, web=web, metrics=numbers)


def known_secrets(settings: Settings) -> tuple[str, ...]:
    """Exact values that must not leave the process."""
    found = [*settings.secrets, *index_credentials(settings).values()]
    for address in (settings.database_url, settings.openai_base_url, settings.e2b_api_url):
        with contextlib.suppress(ValueError):  # what is no address is refused by whoever uses it
            password = urlsplit(address or "").password or ""
            found += [password, unquote(password)]
    return tuple(found)


def sandbox_provider(settings: Settings) -> SandboxProvider:
    """The provider itself, held to no limit of the operator's."""
    if settings.sandbox == "e2b":
        return _e2b(settings)
    from bot.sandbox.docker import DockerProvider

    return DockerProvider(
        docker_host=settings.docker_host,
        deployment=settings.coder_deployment,
        egress_dir=settings.coder_home / "egress",
        private_hosts=settings.coder_private_hosts,
        credentials=index_credentials(settings),
        runtime=settings.coder_docker_runtime,
    )


def index_credentials(settings: Settings) -> Mapping[str, str]:
    path = settings.coder_index_credentials_file
    return {} if path is None else load_credentials(path)


def _e2b(settings: Settings) -> SandboxProvider:
    if settings.e2b_api_key is None:
        raise UserError("E2B_API_KEY is not set; it is a key of your E2B team.")
    from bot.sandbox.e2b import E2BProvider

    return E2BProvider(
        deployment=settings.coder_deployment,
        api_key=settings.e2b_api_key.get_secret_value(),
        plan=settings.coder_e2b_plan,
        api_url=settings.e2b_api_url,
        sandbox_url=settings.e2b_sandbox_url,
        private_hosts=settings.coder_private_hosts,
    )


def pool_limits(settings: Settings, theirs: ProviderLimits) -> PoolLimits:
    """The operator's limits. Raises UserError where they can't hold, naming the setting to change."""
    at_once = settings.coder_max_sandboxes or min(2 * settings.coder_workers + 2, theirs.at_once or 2**31)
    reserved = settings.coder_reserved_sandboxes or min(2, at_once - 1)
    lifetime = settings.coder_max_lifetime or min(LIFETIME_S, theirs.lifetime_s or LIFETIME_S)
    wrong = []
    if theirs.lifetime_s is not None and lifetime > theirs.lifetime_s:
        wrong.append(
            f"CODER_MAX_LIFETIME is {lifetime}, but {settings.sandbox} ends a sandbox after {theirs.lifetime_s} "
            f"seconds: set it to at most {theirs.lifetime_s}, or leave it out."
        )
    if theirs.at_once is not None and at_once > theirs.at_once:
        wrong.append(
            f"CODER_MAX_SANDBOXES is {at_once}, but {settings.sandbox} runs at most {theirs.at_once} at once: "
            f"set it to at most {theirs.at_once}, or leave it out."
        )
    if reserved >= at_once:
        wrong.append(
            f"CODER_RESERVED_SANDBOXES is {reserved}, which leaves none of {at_once} for the work itself: set it "
            "below CODER_MAX_SANDBOXES."
        )
    networks: frozenset[Network] = frozenset({"none", settings.coder_network})
    if not networks <= theirs.networks:
        wrong.append(f"CODER_NETWORK is {settings.coder_network}, which {settings.sandbox} does not know here.")
    if wrong:
        raise UserError(" ".join(wrong))
    return PoolLimits(
        at_once=at_once,
        reserved=reserved,
        lifetime_s=lifetime,
        exec_s=settings.coder_max_exec,
        disk=settings.coder_max_disk,
        networks=networks,
        origins=frozenset({urlsplit(settings.github_api_url).netloc.removeprefix("api.")}),
    )


def github_app(
    settings: Settings, *, clock: Callable[[], datetime] = utc_now, learn: Callable[[str], None] | None = None
) -> App:
    if settings.github_app_id is None or settings.github_private_key is None:
        raise UserError("GITHUB_APP_ID and GITHUB_PRIVATE_KEY are not set; they come with your GitHub App.")
    key = settings.github_private_key.get_secret_value()
    return App(settings.github_app_id, key, settings.github_api_url, clock=clock, learn=learn)


def model(settings: Settings, wanted: str | None) -> Model:
    """The operator's model, or the one a repository names among those it may choose from."""
    spec = settings.model
    if spec is None:
        raise UserError("No model is set. Set CODER_MODEL, or OPENAI_API_KEY for OpenAI's.")
    if wanted is not None:
        spec = model_spec(wanted, settings.models)
        if spec is None:
            raise UserError(f"The model {wanted[:80]!r} is not one that repositories may choose (CODER_MODELS).")
    kind, name = parse_spec(spec)
    table = {
        key: Price(input=price[0], output=price[1], cached=price[2]) for key, price in settings.coder_prices.items()
    }
    if kind == "scripted":
        from bot.llm.scripted import ScriptedModel

        return ScriptedModel(Path(name), price=table.get("scripted", FREE))
    key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else None
    if key is None and (kind == "openai" or settings.openai_base_url is None):
        raise UserError("OPENAI_API_KEY is not set.")
    price = prices.lookup(name, table, base_url=settings.openai_base_url)
    if kind == "openai":
        from bot.llm.responses import ResponsesModel

        assert key is not None, "it was asked for above"
        return ResponsesModel(name, api_key=key, base_url=settings.openai_base_url, price=price)
    from bot.llm.chat import ChatModel

    return ChatModel(name, api_key=key, base_url=settings.openai_base_url, price=price)


def ceilings(settings: Settings, limits: PoolLimits) -> Ceilings:
    """What repositories may ask for in their config."""
    return Ceilings(
        lifetime=limits.lifetime_s,
        disk=limits.disk,
        duration=settings.coder_max_duration,
        retention=settings.coder_max_retention,
        command=limits.exec_s,
        cost=settings.coder_max_cost,
        tokens=settings.coder_max_tokens,
        steps=settings.coder_max_steps,
        tool_calls=settings.coder_max_tool_calls,
        attempts=settings.coder_max_attempts,
        files=settings.coder_max_files,
        patch=settings.coder_max_patch,
        memory=settings.coder_max_memory,
        cpus=settings.coder_max_cpus,
        images=settings.coder_images | {settings.image},
        models=settings.models,
        hosts=settings.coder_network_hosts,
        add_commands=settings.coder_allow_commands,
        deny_commands=settings.coder_deny_commands,
    )
