"""What the bot needs to work, checked one by one, each with the way to mend it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot import app
from bot.db.store import Store
from bot.domain.errors import CoderError, GitHubError, SandboxError
from bot.domain.task import Task
from bot.pipeline import rules as recorded
from bot.sandbox.protocol import SandboxProvider
from bot.settings import Settings

PERMISSIONS = {"contents": "write", "issues": "write", "metadata": "read", "pull_requests": "write"}
WISHES = {"actions": "read", "checks": "write"}
"""What the App can do without, at the price of what hangs on it."""
EVENTS = (
    "check_suite",
    "issue_comment",
    "issues",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "repository",
)
"""As in `app.yml`."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One check. `fix` is empty where nothing needs mending; with `ok` it is a warning."""

    name: str
    ok: bool
    detail: str
    fix: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "ok": self.ok, "detail": self.detail, "fix": self.fix}


async def examine(settings: Settings) -> list[Finding]:
    """All checks; a failing one does not keep the others from being made."""
    return [
        await _database(settings),
        *await _sandbox(settings),
        await _model(settings),
        await _github(settings),
        _webhook(settings),
        *await _publishing(settings),
    ]


async def _database(settings: Settings) -> Finding:
    store = Store(settings.database_url)
    kind = store.engine.dialect.name
    try:
        await store.next_run()
    except Exception as exc:  # any driver's error means the same here: the database can't be read
        fix = "Run `coder-bot db upgrade`; on Postgres see that CODER_DATABASE_URL is right and the server is up."
        return Finding(name="database", ok=False, detail=f"{kind}: {type(exc).__name__}", fix=fix)
    finally:
        await store.aclose()
    return Finding(name="database", ok=True, detail=f"{kind}, schema is there")


async def _sandbox(settings: Settings) -> list[Finding]:
    try:
        provider = app.sandbox_provider(settings)
    except CoderError as exc:
        return [Finding(name="sandbox", ok=False, detail=str(exc), fix="Or set CODER_SANDBOX to the other provider.")]
    try:
        return [await _provider(settings, provider), _limits(settings, provider)]
    finally:
        await provider.aclose()


async def _provider(settings: Settings, provider: SandboxProvider) -> Finding:
    try:
        await provider.list()
        image = await provider.image_id(settings.image)
    except SandboxError as exc:
        detail = f"{provider.name}: {exc.reason}. {exc}"
        return Finding(name="sandbox", ok=False, detail=detail, fix=_FIX[provider.name].get(exc.reason, _LATER))
    return Finding(name="sandbox", ok=True, detail=f"{provider.name}: {settings.image} is {image[:19]}")


_LATER = "See that it can be reached from here, and try again."
_FIX: Mapping[str, Mapping[str, str]] = {
    "docker": {
        "unreachable": "Start Docker, or set DOCKER_HOST to the socket it listens on.",
        "permission_denied": "Let this user use Docker's socket.",
        "invalid_config": "Build the image with scripts/sandbox-image, or set CODER_IMAGE to one that is there. "
        "CODER_DOCKER_RUNTIME has to be one of the engine's.",
    },
    "e2b": {
        "authentication": "Set E2B_API_KEY to a key of your E2B team; the dashboard shows them.",
        "invalid_config": "Build the template with scripts/e2b-template, or set CODER_IMAGE to one of your team's.",
    },
}


def _limits(settings: Settings, provider: SandboxProvider) -> Finding:
    try:
        limits = app.pool_limits(settings, provider.limits)
    except CoderError as exc:
        return Finding(name="limits", ok=False, detail=str(exc), fix="Change the settings that are named.")
    told = (
        f"{limits.at_once} sandboxes at once, {limits.reserved} of them for verification, {limits.lifetime_s} s each"
    )
    return Finding(name="limits", ok=True, detail=told)


async def _model(settings: Settings) -> Finding:
    try:
        model = app.model(settings, None)
        await model.aclose()
    except CoderError as exc:
        return Finding(name="model", ok=False, detail=str(exc), fix="Set OPENAI_API_KEY, or CODER_MODEL and its key.")
    priced = "price known" if model.price else "price unknown: limits.cost can't hold; set CODER_PRICES"
    return Finding(name="model", ok=True, detail=f"{model.name} ({priced})")


async def _github(settings: Settings) -> Finding:
    """The App as GitHub has it, beside what `app.yml` says; a wish that is not granted is a warning."""
    try:
        github = app.github_app(settings)
    except CoderError as exc:
        return Finding(name="github", ok=False, detail=str(exc), fix="See the README on making a GitHub App.")
    where = f"App {settings.github_app_id} at {settings.github_api_url}"
    try:
        known = await github.registration()
    except GitHubError as exc:
        fix = "See that GITHUB_APP_ID and GITHUB_PRIVATE_KEY belong together, and that GITHUB_API_URL can be reached."
        return Finding(name="github", ok=False, detail=f"{where}: {exc}", fix=fix)
    held = {name for name, level in (PERMISSIONS | WISHES).items() if _holds(known.permissions.get(name), level)}
    lacking = [f"permission {name}: {level}" for name, level in PERMISSIONS.items() if name not in held]
    lacking += [f"event {event}" for event in EVENTS if event not in known.events]
    wished = [f"permission {name}: {level}" for name, level in WISHES.items() if name not in held]
    missing = ", ".join(lacking + wished)
    fix = "Add it to the App as in `app.yml`, and accept it for its installations." if missing else ""
    detail = f"{where} ({known.slug}); it lacks {missing}" if missing else f"{where} ({known.slug})"
    return Finding(name="github", ok=not lacking, detail=detail, fix=fix)


def _holds(held: str | None, wanted: str) -> bool:
    levels = ("read", "write", "admin")
    return held in levels and levels.index(held) >= levels.index(wanted)


def _webhook(settings: Settings) -> Finding:
    secret = settings.github_webhook_secret
    if secret is None or not secret.get_secret_value():
        fix = "Set it to the secret in your GitHub App's webhook settings."
        return Finding(name="webhook", ok=False, detail="GITHUB_WEBHOOK_SECRET is not set.", fix=fix)
    return Finding(name="webhook", ok=True, detail="secret is set")


async def _publishing(settings: Settings) -> list[Finding]:
    """What is worth a warning in the rules that the newest tasks ran under; nothing where they can't be read, which
    is another check's to say."""
    store = Store(settings.database_url)
    try:
        tasks = {task.full_name: task for task in reversed(await store.tasks())}
        rules = {name: recorded.of(await store.last_episode(task.id)) for name, task in tasks.items()}
    except Exception:  # any driver's error means the same here
        return []
    finally:
        await store.aclose()
    at_once = [name for name, each in rules.items() if each.pull_request.publish == "at_once"]
    wanting = [tasks[name] for name, each in rules.items() if each.paths.workflows == "approval"]
    return [_at_once(at_once, is_known=bool(rules)), *(await _workflows(settings, wanting) if wanting else ())]


def _at_once(names: Sequence[str], *, is_known: bool) -> Finding:
    if is_known and not names:
        return Finding(name="publishing", ok=True, detail="every repository's results wait for an approval")
    where = f"in {_some(names)}" if names else "unless a repository's rules say otherwise"
    detail = f"results are pushed at once {where}: its own CI runs them, with whatever secrets its workflows use"
    fix = "`pull_request: {publish: after_approval}` in `.github/coder.yml` holds them until a person has looked."
    return Finding(name="publishing", ok=True, detail=detail, fix=fix)


async def _workflows(settings: Settings, tasks: Sequence[Task]) -> list[Finding]:
    """Whether the App may write workflow files where the rules want it: GitHub is asked for a token that may, which
    is given back at once."""
    try:
        github = app.github_app(settings)
    except CoderError:
        return []
    lacking: list[str] = []
    unknown: list[str] = []
    for task in tasks:
        try:
            async with github.token(task.installation_id, task.name, {"workflows": "write"}):
                pass
        except GitHubError as exc:
            (lacking if exc.status == 422 else unknown).append(task.full_name)
    if not lacking and not unknown:
        return [
            Finding(name="workflows", ok=True, detail="the App may write workflow files where the rules allow it")
        ]
    if not lacking:
        detail = f"whether the App may write workflow files is not known for {_some(unknown)}"
        return [Finding(name="workflows", ok=True, detail=detail, fix=_LATER)]
    detail = f"`paths.workflows: approval` in {_some(lacking)}, but the App has no permission to write workflow files"
    fix = "Give the App `workflows: write`, and accept that for the installation; or take the rule out."
    return [Finding(name="workflows", ok=True, detail=detail, fix=fix)]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
