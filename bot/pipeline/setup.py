"""The repository's set-up: which sandbox it asks for, and how its lines run in there."""

from __future__ import annotations

from collections.abc import Collection

from bot.agent.tools import run_line
from bot.domain import detect
from bot.domain.ceilings import covers
from bot.domain.config import Config
from bot.domain.detect import MANIFESTS, Detected
from bot.domain.errors import SandboxError, UserError
from bot.domain.task import Lease
from bot.pipeline.deps import Deps
from bot.pipeline.registries import hosts
from bot.sandbox import workspace
from bot.sandbox.protocol import Kind, Sandbox, SandboxSpec
from bot.sandbox.workspace import MANIFEST_LIMIT, tail


class SetupFailed(UserError):
    """A line of the repository's set-up failed; the message holds the end of its output."""


def spec(
    deps: Deps,
    lease: Lease,
    kind: Kind,
    rules: Config,
    *,
    lifetime_s: int | None = None,
    snapshot: str | None = None,
    run: str | None = None,
) -> SandboxSpec:
    """What a repository's rules ask of a sandbox, within the operator's ceilings (which were checked at intake);
    `run` tells several of one kind apart."""
    return SandboxSpec(
        name="-".join(filter(None, (lease.task_id, kind, run))),
        kind=kind,
        task=lease.task_id,
        image=image(deps, rules),
        lifetime_s=rules.sandbox.lifetime if lifetime_s is None else lifetime_s,
        memory=rules.sandbox.memory,
        cpus=float(rules.sandbox.cpus),
        disk=rules.sandbox.disk,
        env=dict(rules.sandbox.env),
        snapshot=snapshot,
        epoch=lease.epoch,
    )


def image(deps: Deps, rules: Config) -> str:
    return rules.sandbox.image or deps.image


async def detected(sandbox: Sandbox) -> Detected:
    """What the checked-out repository says about itself; to be asked before anything of it has run."""
    names = [entry.name for entry in await sandbox.list(workspace.REPO)]
    texts = {}
    for name in MANIFESTS:
        if name in names:
            try:
                data = await sandbox.read(f"{workspace.REPO}/{name}", max_bytes=MANIFEST_LIMIT)
            except (OSError, ValueError, SandboxError):
                continue  # a link, a folder or something huge by that name says nothing
            texts[name] = data.decode("utf-8", "replace")
    return detect.detect(names, texts)


async def set_up(sandbox: Sandbox, rules: Config, found: Detected, *, listed: Collection[str] | None) -> None:
    """Runs the set-up lines with the set-up network, then closes it for good. `listed` is what the operator lets
    network lists name (None: anything): what was detected is bound by it too. Raises SetupFailed, RegistryUnknown."""
    lines, _, network = detect.applied(rules, found)
    if not lines:
        return
    if beyond := [entry for entry in network if listed is not None and not covers(listed, entry)]:
        names = ", ".join(f"`{entry}`" for entry in beyond)
        raise SetupFailed(
            f"Set-up needs the network of {names}, which whoever runs this bot does not allow. "
            "Say `network: {setup: []}` in `.github/coder.yml` for a set-up without."
        )
    await sandbox.allow(await hosts(sandbox, network))
    try:
        for line in lines:
            result = await run_line(sandbox, line, env=sandbox.proxy_env, timeout_s=rules.timeouts.setup)
            if not result.ok:
                how = "did not end in time" if result.timed_out else f"failed with exit code {result.exit_code}"
                raise SetupFailed(f"Set-up {how}: `{line}`\n{tail(result)}")
    finally:
        await sandbox.allow(frozenset())
