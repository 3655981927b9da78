"""The command line: what people and scripts call. Heavy parts are imported by the command that needs them."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from bot import cli_deliveries, cli_receipt
from bot import settings as env
from bot.domain import command, config
from bot.domain.commands_policy import Allowed, Policy, Refused
from bot.domain.config import ConfigError
from bot.domain.episode import Code
from bot.domain.errors import UserError
from bot.domain.redaction import Redactor

if TYPE_CHECKING:
    from bot.db.store import Store
    from bot.local import Report
    from bot.sandbox.protocol import SandboxProvider

T = TypeVar("T")

redactor = Redactor()
"""This process's: what it prints, logs and says on GitHub goes through it."""

REFUSED = 3
"""Exit code for what the policy refuses."""

app = typer.Typer(name="coder-bot", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
configs = typer.Typer(no_args_is_help=True, help="Repository config, `.github/coder.yml`.")
policies = typer.Typer(no_args_is_help=True, help="The command policy.")
comments = typer.Typer(no_args_is_help=True, help="Commands in comments.")
databases = typer.Typer(no_args_is_help=True, help="The database.")
tasks = typer.Typer(no_args_is_help=True, help="Tasks of this deployment.")
sandboxes = typer.Typer(no_args_is_help=True, help="Sandboxes of this deployment.")
for name, group in {
    "config": configs,
    "policy": policies,
    "comment": comments,
    "db": databases,
    "receipt": cli_receipt.receipts,
    "deliveries": cli_deliveries.deliveries,
    "tasks": tasks,
    "sandboxes": sandboxes,
}.items():
    app.add_typer(group, name=name)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]
ModelSpec = Annotated[
    str | None, typer.Option("--model", help="openai:NAME, chat:NAME or scripted:FILE.", metavar="SPEC")
]


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
) -> None:
    """Listen for GitHub's webhooks and do the work, in one process."""
    _log(logging.INFO)
    _run(_serve(host, port))


async def _serve(host: str, port: int) -> None:
    import uvicorn

    from bot.app import model, open_bot

    settings = _settings()
    await model(settings, None).aclose()  # a missing model is an error now, not at the first issue
    async with open_bot(settings, redactor=redactor) as bot:
        doors = [(bot.web, host, port)]
        if settings.coder_metrics_port is not None:
            doors.append((bot.metrics, settings.coder_metrics_host, settings.coder_metrics_port))
        servers = [
            uvicorn.Server(
                uvicorn.Config(site, host=at, port=on, log_level="warning", log_config=None, lifespan="off")
            )
            for site, at, on in doors
        ]
        parts = [asyncio.create_task(server.serve()) for server in servers]
        # What GitHub is asked to deliver again must find the door open; uvicorn has no event for that.
        while not all(server.started or part.done() for server, part in zip(servers, parts, strict=True)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        working = asyncio.create_task(bot.work())
        parts.append(working)
        await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        for server in servers:
            server.should_exit = True
        working.cancel()
        await asyncio.wait(parts)
        for ended in parts:
            if not ended.cancelled() and (problem := ended.exception()):
                raise problem


@app.command()
def demo(
    model: ModelSpec = None,
    repo: Annotated[Path | None, typer.Option(help="A local git repository; default: a sample.")] = None,
    task: Annotated[str | None, typer.Option(help="What to do there: the issue's text.")] = None,
    as_json: Json = False,
    keep: Annotated[bool, typer.Option(help="Stay until Ctrl-C; see docs/local-github.md.")] = False,
) -> None:
    """The main job with no account: a comment on a local GitHub becomes a verified pull request."""
    from bot import local

    _log(logging.WARNING)
    settings = _settings()
    if (repo is None) != (task is None):
        raise typer.BadParameter("--repo and --task go together")
    job = _job(settings, repo, task, model, keep)
    report = _run(local.main_job(settings, job, _say))
    _write_receipt(report, settings.coder_home / "receipts" / "demo.json")
    _finish(report, as_json)


@app.command()
def run(
    repo: Annotated[Path, typer.Option(help="A local git repository.")],
    task: Annotated[str, typer.Option(help="What to do.")],
    model: ModelSpec = None,
    out: Annotated[Path, typer.Option(help="Where the patch goes.")] = Path("coder.patch"),
    receipt: Annotated[Path | None, typer.Option(help="Where the receipt goes.")] = None,
    apply: Annotated[bool, typer.Option(help="Apply the patch to the work tree.")] = False,
    as_json: Json = False,
) -> None:
    """The same pipeline on a local repository: writes a patch and a receipt, and changes nothing else."""
    from bot import local
    from bot.demo import repository

    _log(logging.WARNING)
    settings = _settings()
    if _run(_is_dirty(repo)):
        _say("note: uncommitted changes are not part of the work; it starts from HEAD")
    report = _run(local.main_job(settings, _job(settings, repo, task, model, keep=False), _say))
    if report.passed:
        out.write_bytes(report.patch)
        _say(f"patch: {out}")
    if receipt is not None:
        _write_receipt(report, receipt)
    if apply and report.passed:
        _run(repository.apply(repo, report.patch))
        _say(f"applied to {repo}; `git apply -R {out}` undoes it")
    _finish(report, as_json)


@app.command()
def verify(
    repo: Annotated[Path, typer.Option(help="A local git repository.")],
    patch: Annotated[Path, typer.Option(help="A git diff against the base.")],
    base: Annotated[str, typer.Option(help="The commit the patch is for.")] = "HEAD",
    config_file: Annotated[Path | None, typer.Option("--config", help="Rules; default: the base's own.")] = None,
    receipt: Annotated[Path | None, typer.Option(help="Where the receipt goes.")] = None,
    as_json: Json = False,
) -> None:
    """Verification alone: run a repository's checks on a patch in a fresh sandbox."""
    from bot import local, signing
    from bot.demo import repository

    _log(logging.WARNING)
    settings = _settings()

    async def work() -> tuple[Any, float]:
        commit = await repository.resolve(repo, base)
        candidate = await repository.read_patch(repo, commit, _read(patch))
        if not candidate:
            raise UserError(f"{patch} changes nothing.")
        rules = _read(config_file) if config_file else None
        return await local.verify(settings, repo=repo, base=commit, patch=candidate, config_text=rules, say=_say)

    made, seconds = _run(work())
    document = local.verified_document(made, seconds)
    report = local.Report(
        document=document,
        sentence=" ".join(made.verdict.reasons),
        patch=b"",
        receipt=signing.load(settings).sign(made.to_dict()),
    )
    if receipt is not None:
        _write_receipt(report, receipt)
    _finish(report, as_json)


@configs.command("check")
def config_check(file: Path, as_json: Json = False) -> None:
    """Say whether a config file is right; exit code 0 or 1."""
    try:
        if file.is_symlink():
            raise UserError(f"{file} is a symbolic link; the bot reads its rules from a regular file only.")
        config.parse(_read(file))
        problems: tuple[config.Problem, ...] = ()
    except ConfigError as exc:
        problems = exc.problems
    except UserError as exc:
        if not as_json:
            raise
        problems = (config.Problem(line=0, column=0, key="", message=str(exc)),)
    if as_json:
        errors = [{"line": p.line, "column": p.column, "key": p.key, "message": p.message} for p in problems]
        _print_json({"ok": not problems, "errors": errors})
    else:
        for p in problems:
            print(f"{file}:{p.line}:{p.column}: {p.message}")
        if not problems:
            print(f"{file} is right.")
    raise typer.Exit(1 if problems else 0)


@configs.command("schema")
def config_schema() -> None:
    """Print the config file's JSON Schema, for editors."""
    print(json.dumps(config.schema(), indent=2))


@policies.command("check")
def policy_check(
    line: Annotated[str, typer.Argument(metavar="COMMAND")],
    config_file: Annotated[Path | None, typer.Option("--config", help="Rules; default: all presets.")] = None,
    as_json: Json = False,
) -> None:
    """Say whether the agent may run a command, and by which rule; exit code 0 allowed, 3 refused."""
    rules = config.parse(_read(config_file)) if config_file else None
    policy = Policy.of(allow=rules.commands.allow, deny=rules.commands.deny) if rules else Policy.of()
    decision = policy.decide(line)
    allowed = isinstance(decision, Allowed)
    argv, reason = list(decision.argv) if isinstance(decision, Allowed) else [], ""
    if isinstance(decision, Refused):
        reason = f"{decision.reason} {decision.hint}" if decision.hint else decision.reason
    if as_json:
        _print_json({"allowed": allowed, "argv": argv, "rule": decision.rule, "reason": reason})
    else:
        print(f"allowed by {decision.rule}" if allowed else f"refused by {decision.rule}: {reason}")
    raise typer.Exit(0 if allowed else REFUSED)


@comments.command("parse")
def comment_parse(as_json: Json = False) -> None:
    """Read a comment on stdin and say which command it gives."""
    parsed = command.parse(sys.stdin.buffer.read().decode("utf-8", "replace"))
    usage = parsed.message if isinstance(parsed, command.Usage) else None
    found = (
        None if parsed is None or isinstance(parsed, command.Usage) else {"verb": parsed.verb, "text": parsed.text}
    )
    if as_json:
        _print_json({"command": found, "usage": usage})
    else:
        print(f"{found['verb']} {found['text']}".rstrip() if found else usage or "no command")


@app.command()
def doctor(as_json: Json = False) -> None:
    """Check everything the bot needs, and say how to mend what is missing."""
    from bot import doctor as doctors

    _log(logging.ERROR)
    checks = _run(doctors.examine(_settings()))
    ok = all(check.ok for check in checks)
    if as_json:
        _print_json({"ok": ok, "checks": [check.to_dict() for check in checks]})
    else:
        for check in checks:
            mark = "BAD" if not check.ok else "MIND" if check.fix else "ok "
            print(f"{mark} {check.name}: {check.detail}")
            if check.fix:
                print(f"    {check.fix}")
    raise typer.Exit(0 if ok else 1)


@databases.command("upgrade")
def db_upgrade() -> None:
    """Bring the database to the newest schema."""
    from bot.db import migrate

    settings = _settings()
    settings.coder_home.mkdir(parents=True, exist_ok=True)
    _run(migrate.upgrade(settings.database_url))
    print("The database is up to date.")


@tasks.command("list")
def tasks_list(everything: Annotated[bool, typer.Option("--all", help="Closed ones as well.")] = False) -> None:
    """List tasks, the newest first."""
    from bot.db.store import Store

    async def work() -> None:
        store = Store(_settings().database_url)
        try:
            for task in await store.tasks(only_open=not everything):
                print(f"{task.id}  {task.state:<18} {task.full_name}#{task.number}  {task.title[:60]}")
        finally:
            await store.aclose()

    _run(work())


@tasks.command("show")
def tasks_show(task_id: Annotated[str, typer.Argument(metavar="TASK")]) -> None:
    """Show what a task's agent said, did, and was refused."""
    from bot.db.store import Store
    from bot.domain import history

    async def work() -> list[str]:
        store = Store(_settings().database_url)
        try:
            task = next((task for task in await store.tasks() if task.id == task_id), None)
            if task is None:
                raise UserError(f"There is no task {task_id}. `coder-bot tasks list --all` lists them.")
            episodes = await store.episodes(task.id)
            steps = [await store.steps(task.id, episode_id=episode.id) for episode in episodes]
            return list(history.lines(task, zip(episodes, steps, strict=True)))
        finally:
            await store.aclose()

    for line in _run(work()):
        print(line)


@asynccontextmanager
async def _sandboxes() -> AsyncIterator[tuple[SandboxProvider, Store]]:
    from bot.app import sandbox_provider
    from bot.db import migrate
    from bot.db.store import Store

    settings = _settings()
    settings.coder_home.mkdir(parents=True, exist_ok=True)
    await migrate.upgrade(settings.database_url)
    store = Store(settings.database_url)
    try:
        provider = sandbox_provider(settings)
        try:
            yield provider, store
        finally:
            await provider.aclose()
    finally:
        await store.aclose()


@sandboxes.command("list")
def sandboxes_list(as_json: Json = False) -> None:
    """List sandboxes, running and paused, and the snapshot each was started from."""

    async def work() -> list[dict[str, Any]]:
        async with _sandboxes() as (provider, store):
            infos = await provider.list()
            records = [record for task in {info.task for info in infos} for record in await store.sandboxes(task)]
            from_snapshot = {record.provider_id: record.snapshot_id for record in records}
            return [
                {
                    "provider": provider.name,
                    "id": info.id,
                    "kind": info.kind,
                    "task": info.task,
                    "running": info.running,
                    "snapshot": from_snapshot.get(info.id),
                }
                for info in infos
            ]

    found = _run(work())
    if as_json:
        _print_json({"sandboxes": found})
        return
    for item in found:
        state = "running" if item["running"] else "paused"
        line = f"{item['provider']:<6}  {item['id']:<24}  {item['kind']:<6}  {state:<7}  {item['task']}"
        print(f"{line}  from {item['snapshot']}" if item["snapshot"] else line)


@sandboxes.command("reap")
def sandboxes_reap(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be ended.")] = False,
    as_json: Json = False,
) -> None:
    """End sandboxes, snapshots and slots that no live task owns; `serve` does so every few minutes."""
    from bot.app import utc_now
    from bot.pipeline.reconcile import reap

    async def work() -> list[dict[str, Any]]:
        async with _sandboxes() as (provider, store):
            return [asdict(item) for item in await reap(store, provider, now=utc_now(), dry_run=dry_run)]

    found = _run(work())
    if as_json:
        _print_json({"dry_run": dry_run, "leftovers": found})
        return
    for item in found:
        task = f" of task {item['task']}" if item["task"] else ""
        print(f"{'would end' if dry_run else 'ended'} {item['what']} {item['id']}{task}: {item['why']}")
    if not found:
        print("Nothing is left over.")


def _job(settings: env.Settings, repo: Path | None, task: str | None, model: str | None, keep: bool) -> Any:
    from bot import local
    from bot.demo import sample

    spec = model or settings.model
    if repo is None or task is None:
        spec = spec or f"scripted:{sample.script()}"
        return local.Job(repo=None, title=sample.ISSUE_TITLE, body=sample.ISSUE_BODY, model=spec, keep=keep)
    if spec is None:
        raise UserError("No model is set. Give --model, or set OPENAI_API_KEY.")
    title, _, _ = task.strip().partition("\n")
    return local.Job(repo=repo, title=title[:200], body=task, model=spec, keep=keep)


async def _is_dirty(repo: Path) -> bool:
    from bot.demo import repository

    await repository.resolve(repo, "HEAD")
    return await repository.is_dirty(repo)


def _finish(report: Report, as_json: bool) -> None:
    if report.complaint is not None:
        _say(f"coder-bot: {report.complaint}")
    if as_json:
        _print_json(report.document)
    else:
        print(f"{report.document['code']}: {report.sentence}")
        if pull := report.document["pull_request"]:
            print(f"pull request #{pull['number']}: head {pull['head_sha'][:12]}, tree {pull['head_tree'][:12]}")
    raise typer.Exit(0 if report.passed else REFUSED if report.document["code"] == Code.POLICY_REFUSED else 1)


def _write_receipt(report: Report, file: Path) -> None:
    from bot import local

    if report.receipt is not None:
        local.write_receipt(report.receipt, file)
        report.document["receipt"]["file"] = str(file)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as exc:
        raise UserError(f"{file} can't be read: {exc.strerror}.") from exc


def _print_json(document: dict[str, Any]) -> None:
    print(json.dumps(redactor.clean(document)), flush=True)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def _settings() -> env.Settings:
    """The operator's settings, whose secrets are known from now on to all that this process writes."""
    settings = env.load()
    redactor.keep(settings.secrets)
    return settings


def _log(level: int) -> None:
    from bot import sinks

    sinks.logs(level, redactor)
