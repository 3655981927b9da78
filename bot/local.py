"""The main job on one machine, for `demo`, `run` and `verify`: the product itself, with a local GitHub around it or
none at all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import structlog
import uvicorn
from pydantic import SecretStr

from bot import app, signing
from bot.app import Bot
from bot.demo import repository, sample
from bot.demo.github import LocalGitHub
from bot.domain import config
from bot.domain.config import Config
from bot.domain.cuts import beginning
from bot.domain.episode import Code, Episode
from bot.domain.errors import SandboxError, UserError
from bot.domain.gate import refused
from bot.domain.patch import Patch
from bot.domain.receipt import Place, Receipt
from bot.domain.redaction import Redactor
from bot.domain.task import State, Task
from bot.domain.transcript import Step, spend
from bot.domain.verification import CheckResult, Passed, Run, RunKind, judge
from bot.llm.scripted import ScriptedModel
from bot.llm.spec import parse_spec
from bot.pipeline import runs
from bot.pipeline.grounds import Candidate
from bot.sandbox import workspace
from bot.sandbox.protocol import Sandbox, SandboxProvider, SandboxSpec
from bot.sandbox.workspace import Bundle
from bot.settings import Settings

PERSON = "you"
"""Who gives the command on the local GitHub."""
POLL_S = 0.1

Say = Callable[[str], None]

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is to be done: in which repository (None: the sample), and what the issue says."""

    repo: Path | None
    title: str
    body: str
    model: str
    keep: bool = False


@dataclass(frozen=True, kw_only=True)
class Report:
    """How it ended. `document` is the JSON object for scripts; `patch` is a git diff, empty without a result."""

    document: dict[str, Any]
    sentence: str
    patch: bytes
    receipt: dict[str, Any] | None
    """The receipt's envelope, as it can be verified."""
    complaint: str | None = None
    """What was wrong with the call, whatever came of it: a script with replies to spare."""

    @property
    def passed(self) -> bool:
        good = self.receipt is not None and self.document["code"] == Code.VERIFIED
        return good and self.complaint is None


async def main_job(settings: Settings, job: Job, say: Say) -> Report:
    """Comment, task, sandbox, fix, verification, pull request: everything but the account is real."""
    started = time.monotonic()
    home = Path(tempfile.mkdtemp(prefix="coder-"))
    try:
        async with LocalGitHub(home / "github") as github:
            name = f"local/{_name(job.repo) if job.repo else 'sample'}"
            await github.create_repository(name, source=job.repo or sample.files())
            github.grant(name, PERSON, "write")
            issue = github.open_issue(name, title=job.title, body=job.body, author=PERSON)
            own = _settings(settings, github, home, job)
            # The person's own key, so that the receipt can be checked when this home is gone.
            signer = replace(signing.load(settings), origin=github.api_url.removesuffix("/api/v3"))
            async with app.open_bot(own, signer=signer) as bot, listening(bot, github), _working(bot):
                say(f"local GitHub at {github.api_url}, repository {name}, issue #{issue.number}")
                say(f"@{PERSON} comments: /coder fix")
                await github.comment(name, issue.number, "/coder fix", author=PERSON)
                task, episode = await _follow(bot, say, started)
                if task.state is State.AWAITING_APPROVAL:
                    say(f"the rules want an approval, and nothing leaves this machine; @{PERSON}: /coder approve")
                    await github.comment(name, issue.number, "/coder approve", author=PERSON)
                    task, episode = await _follow(bot, say, started)
                report = await _report(bot, github, name, task, episode, started)
                report = replace(report, complaint=_left_over(job.model, report.document["steps"]))
                if job.keep:
                    say(f"kept: home {home}, GitHub {github.api_url}; Ctrl-C ends it")
                    say(f"act there as people do: {github.door_url} (docs/local-github.md says how)")
                    await asyncio.Event().wait()
                await _close(bot, github, name, issue.number, task)
                return report
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _left_over(spec: str, used: int) -> str | None:
    """A scripted model has to be played to its end: replies nobody asked for mean that the script is wrong."""
    kind, file = parse_spec(spec)
    left = ScriptedModel(Path(file)).unused(used) if kind == "scripted" else 0
    return f"The script {file} has {left} replies too many." if left else None


def _name(repo: Path) -> str:
    """The folder's name, as GitHub would take it for a repository's."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", repo.resolve().name).strip("-.") or "repository"


def _settings(settings: Settings, github: LocalGitHub, home: Path, job: Job) -> Settings:
    origin = github.api_url.removesuffix("/api/v3").partition("://")[2]
    return settings.model_copy(
        update={
            "coder_home": home / "home",
            "coder_database_url": None,
            "coder_deployment": f"local-{secrets.token_hex(4)}",
            "coder_model": job.model,
            "coder_private_hosts": settings.coder_private_hosts | {origin},
            "github_api_url": github.api_url,
            "github_app_id": github.app.app_id,
            "github_private_key": SecretStr(github.app.private_key),
            "github_webhook_secret": SecretStr(github.app.webhook_secret),
        }
    )


@asynccontextmanager
async def listening(bot: Bot, github: LocalGitHub) -> AsyncIterator[None]:
    """The bot's web door on a port of its own, known to the local GitHub; whatever sandboxes and snapshots the bot
    has left are ended on the way out."""
    server = uvicorn.Server(uvicorn.Config(bot.web, host="127.0.0.1", port=0, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        if serving.done():
            serving.result()
            raise UserError("The bot's web server did not start.")
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    github.webhook_url = f"http://127.0.0.1:{port}/github/webhook"
    try:
        yield
    finally:
        await github.settled()
        server.should_exit = True
        await serving
        try:
            for info in await bot.deps.provider.list():
                await bot.deps.provider.kill(info.id)
            for snapshot in await bot.deps.provider.snapshots():
                await bot.deps.provider.drop_snapshot(snapshot.id)
        except SandboxError as exc:
            log.warning("sandboxes could not be ended; their lifetime will", reason=str(exc))


@asynccontextmanager
async def _working(bot: Bot) -> AsyncIterator[None]:
    working = asyncio.create_task(bot.work())
    try:
        yield
    finally:
        working.cancel()
        await asyncio.wait([working])


async def _follow(bot: Bot, say: Say, started: float) -> tuple[Task, Episode]:
    """Says what happens as it happens, until nobody but a person can move the task on."""
    seen: set[str] = set()

    def news(key: str, line: str) -> None:
        if key not in seen:
            seen.add(key)
            say(f"{time.monotonic() - started:6.1f} s  {line}")

    store = bot.deps.store
    while True:
        tasks = await store.tasks()
        if tasks:
            task = tasks[0]
            episode = await store.last_episode(task.id)
            for step in await store.steps(task.id):
                news(f"{step.id}", f"step {step.number}  {_replied(step)}")
                for call in step.calls:
                    news(
                        f"{step.id}.{call.position}", f"        {_called(call.name, call.arguments, call.exit_code)}"
                    )
            news(f"{task.state} {episode.attempts}", f"[{task.state}]")
            if not task.is_busy and not await store.jobs():
                return await store.task(task.id), await store.last_episode(task.id)
        elif not await store.jobs():
            return await _refused(bot)
        await asyncio.sleep(POLL_S)


async def _refused(bot: Bot) -> tuple[Task, Episode]:
    raise UserError("The command was refused; the comment on the issue says why.")


def _replied(step: Step) -> str:
    text = " ".join(str(step.reply.get("text", "")).split())
    return text if len(text) <= 100 else f"{beginning(text, 100)}…"


def _called(name: str, arguments: dict[str, Any] | None, exit_code: int | None) -> str:
    what = next((str(value) for value in (arguments or {}).values() if value), "").splitlines()
    shown = f"{name} {beginning(what[0], 80) if what else ''}".rstrip()
    return shown if exit_code is None else f"{shown}  → exit code {exit_code}"


async def _report(bot: Bot, github: LocalGitHub, name: str, task: Task, episode: Episode, started: float) -> Report:
    saved = await bot.deps.store.receipt(task.id)
    receipt = saved.document if saved else None
    used = spend(await bot.deps.store.steps(task.id))
    pull = next((p for p in github.pull_requests(name) if p.number == task.pull_request), None)
    work = [item for item in await bot.deps.store.sandboxes(task.id) if item.kind == "work" and item.provider_id]
    assert episode.code is not None, "nothing is due, so the episode has ended"
    document = {
        "outcome": episode.code.outcome,
        "code": str(episode.code),
        "issue": task.number,
        "pull_request": {
            "number": pull.number,
            "url": task.pull_request_url,
            "head_sha": pull.head_sha,
            "head_tree": pull.head_tree,
        }
        if pull
        else None,
        "receipt": brief(receipt),
        "sandbox": {"provider": work[0].provider, "id": work[0].provider_id} if work else None,
        "verification_sandbox": receipt["verification_sandbox"] if receipt else None,
        "steps": used.steps,
        "cost_usd": None if used.cost is None else float(used.cost),
        "seconds": round(time.monotonic() - started, 1),
    }
    patch = b""
    if pull is not None:
        patch = await repository.diff(github.path(name), task.base_sha, pull.head_sha)
    sentence = episode.detail or str(episode.code)
    envelope = saved.envelope or bot.deps.signer.sign(bot.deps.redactor.clean(saved.document)) if saved else None
    return Report(document=document, sentence=sentence, patch=patch, receipt=envelope)


def brief(receipt: dict[str, Any] | None) -> dict[str, Any] | None:
    """The receipt as it stands in the JSON line; `file` is filled in by whoever writes it to one."""
    if receipt is None:
        return None
    kept = ("name", "exit_code", "passed", "failed", "skipped")
    return {
        "verdict": receipt["verdict"],
        "tree": receipt["tree"],
        "base": receipt["base"],
        "checks": [{key: check[key] for key in kept} for check in receipt["checks"]],
        "reasons": receipt["reasons"],
        "file": None,
    }


async def _close(bot: Bot, github: LocalGitHub, name: str, number: int, task: Task) -> None:
    """Closes what the person opened, as a person would, and waits until the bot has put everything away."""
    if task.pull_request is not None:
        await github.close_pull(name, task.pull_request, author=PERSON)
    else:
        await github.close_issue(name, number, author=PERSON)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(60):
            # The work is in the database; there is no event to wait for.
            while (await bot.deps.store.task(task.id)).is_open or await bot.deps.store.jobs():  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)


async def verify(
    settings: Settings,
    *,
    repo: Path,
    base: str,
    patch: Patch,
    config_text: bytes | None,
    say: Say = lambda line: None,
) -> tuple[Receipt, float]:
    """Verification alone: the patch on that commit, judged by the config that is given, or by the one the commit
    has. Says how each check ended."""
    started = time.monotonic()
    rules = config.parse(
        config_text if config_text is not None else await repository.show(repo, base, ".github/coder.yml")
    )
    candidate = Candidate(
        base=base,
        patch=patch,
        rules=rules,
        redact=Redactor(settings.secrets).redact,
        listed=settings.coder_network_hosts,
    )
    home = Path(tempfile.mkdtemp(prefix="coder-"))
    own = settings.model_copy(update={"coder_deployment": f"verify-{secrets.token_hex(4)}", "coder_home": home})
    provider = app.sandbox_provider(own)
    try:
        image = rules.sandbox.image or settings.image
        image_id = await provider.image_id(image)
        maker = _Maker(
            provider=provider,
            rules=rules,
            image=image,
            lifetime_s=min(rules.sandbox.lifetime, app.pool_limits(own, provider.limits).lifetime_s),
            origin=Bundle(data=await repository.bundle(repo, base)),
            base=base,
        )

        def tell(run: Run) -> None:
            for check in run.checks:
                say(f"{time.monotonic() - started:6.1f} s  {_ran(run, check)}")

        evidence, ran_in = await runs.examine(
            maker, candidate, None, baselines=NoBaselines(), image_id=image_id, tell=tell
        )
        receipt = Receipt(
            repository=_name(repo),
            evidence=evidence,
            verdict=judge(evidence),
            config_sha=None,
            image=image_id,
            sandbox=None,
            verification_sandbox=Place(provider=provider.name, id=ran_in),
            model=None,
            spent=None,
            created_at=app.utc_now(),
            bot_version=version("coder-bot"),
        )
    finally:
        await provider.aclose()
        shutil.rmtree(home, ignore_errors=True)
    return receipt, time.monotonic() - started


_RUNS: Mapping[RunKind, str] = {
    "baseline": "the base",
    "candidate": "the candidate",
    "old_tests": "the candidate with base's tests",
    "new_tests": "the base with the patch's tests",
}


def _ran(run: Run, check: CheckResult) -> str:
    counts = check.counts
    told = f", {counts.passed} passed, {counts.failed + counts.errors} failed" if counts else ""
    ended = "time-out" if check.timed_out else f"exit code {check.exit_code}"
    ours = " (one test of ours must fail)" if check.canary_names else ""
    return f"{_RUNS[run.kind]}: {check.name}  → {ended}{told}{ours}"


@dataclass(frozen=True, kw_only=True)
class _Maker:
    """Sandboxes of one verification without a database; whatever ends this process, their lifetime ends them."""

    provider: SandboxProvider
    rules: Config
    image: str
    lifetime_s: int
    origin: Bundle
    base: str

    async def clone(self, name: str) -> Sandbox:
        sandbox = await self.start(name, None)
        try:
            await workspace.clone(sandbox, self.origin, self.base, timeout_s=self.rules.timeouts.clone)
        except BaseException:
            await self.end(sandbox)
            raise
        return sandbox

    async def start(self, name: str, snapshot: str | None) -> Sandbox:
        asked = self.rules.sandbox
        return await self.provider.create(
            SandboxSpec(
                name=f"verify-{name}-{secrets.token_hex(4)}",
                kind="verify",
                task="verify",
                image=self.image,
                lifetime_s=self.lifetime_s,
                memory=asked.memory,
                cpus=float(asked.cpus),
                disk=asked.disk,
                env=dict(asked.env),
                snapshot=snapshot,
            )
        )

    async def keep(self, sandbox: Sandbox) -> str | None:
        info = None
        try:
            info = await self.provider.snapshot(sandbox.id)
        except SandboxError as exc:
            log.warning("no snapshot could be made", reason=str(exc))
        await self.end(sandbox)
        return None if info is None else info.id

    async def drop(self, snapshot: str) -> None:
        await self.provider.drop_snapshot(snapshot)

    async def end(self, sandbox: Sandbox) -> None:
        await sandbox.aclose()
        await self.provider.kill(sandbox.id)


class NoBaselines:
    """Nothing is remembered: the base is run as well, each time."""

    async def get(self, key: str) -> None:
        return None

    async def put(self, key: str, run: Run) -> None:
        return None


def verified_document(receipt: Receipt, seconds: float) -> dict[str, Any]:
    """The JSON object of `verify`."""
    verdict = receipt.verdict
    code = {"Passed": Code.VERIFIED, "Failed": Code.CHECKS_FAILED, "Unverified": Code.UNVERIFIED}[verdict.name]
    if refused(receipt.evidence.findings):
        code = Code.POLICY_REFUSED
    return {
        "outcome": "succeeded" if isinstance(verdict, Passed) else code.outcome,
        "code": str(code),
        "issue": None,
        "pull_request": None,
        "receipt": brief(receipt.to_dict()),
        "sandbox": None,
        "verification_sandbox": receipt.verification_sandbox.to_dict(),
        "steps": 0,
        "cost_usd": None,
        "seconds": round(seconds, 1),
    }


def write_receipt(receipt: dict[str, Any], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(receipt, indent=2) + "\n")
