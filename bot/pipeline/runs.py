"""The runs of one verification: the same checks on the base, on the candidate, with the tests as they were before,
and with the new tests on the old code, each in a fresh sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from bot.agent.tools import run_line
from bot.domain import canary, coverage, detect, gate, report, reporting, testfiles, tricks
from bot.domain.config import Check
from bot.domain.coverage import Coverage
from bot.domain.errors import InfraError, SandboxError
from bot.domain.gate import Finding
from bot.domain.patch import Patch
from bot.domain.testfiles import Split
from bot.domain.tree import TreeEntry, blob_id, tree_id
from bot.domain.verification import (
    Canary,
    CheckResult,
    Evidence,
    Policy,
    Run,
    RunKind,
    documents_only,
    fails_beside_canary,
    says_nothing,
)
from bot.pipeline.grounds import Base, Candidate, Ground, GroundUnusable, Maker, Prepared
from bot.pipeline.registries import RegistryUnknown, hosts
from bot.pipeline.setup import SetupFailed, detected
from bot.sandbox import workspace
from bot.sandbox.pool import PoolFull
from bot.sandbox.protocol import Sandbox
from bot.sandbox.workspace import REPO, SCRATCH, PatchRefused, tail

REPORT_LIMIT = 4 * 1024 * 1024
OUTPUT_KEPT = 6_000
"""Characters of a check's output that go into the evidence and to the model."""
BASELINE_VERSION = 1
"""Another number where runs remembered so far are not to count any more."""
SITES = 5
"""Test files that are tried for canaries."""
TESTS_READ = 300
"""Test files of the base that are looked through for what a patch may be made for."""


class Baselines(Protocol):
    """Remembers how the checks ended on a base."""

    async def get(self, key: str) -> Run | None: ...

    async def put(self, key: str, run: Run) -> None: ...


async def examine(
    maker: Maker,
    candidate: Candidate,
    base: Base | None,
    *,
    baselines: Baselines,
    image_id: str,
    tell: Callable[[Run], None] | None = None,
) -> tuple[Evidence, str]:
    """Everything the verdict rests on, and the id of the sandbox that the candidate ran in first. `base` is None
    where it has to be cloned. What the patch gate refuses is not even built. Raises what breaks, GroundUnusable where
    only the way that `base` begins does; no sandbox is left. `tell` hears of each run when it has ended."""
    async with contextlib.AsyncExitStack() as stack:
        trial = _Trial(maker, candidate, baselines, image_id, tell or (lambda run: None))
        stack.push_async_callback(trial.aclose)
        return await trial.evidence(base)


@dataclass(kw_only=True)
class _Ready:
    """A sandbox with a run's tree checked out in it."""

    sandbox: Sandbox
    tree: str
    files: tuple[TreeEntry, ...]


@dataclass
class _Trial:
    maker: Maker
    candidate: Candidate
    baselines: Baselines
    image_id: str
    tell: Callable[[Run], None]
    _open: list[Sandbox] = field(default_factory=list)
    _ahead: dict[RunKind, asyncio.Task[_Ready | None]] = field(default_factory=dict)
    _grounds: list[Ground] = field(default_factory=list)
    _ending: set[asyncio.Task[None]] = field(default_factory=set)
    _early: asyncio.Task[Sandbox | None] | None = None
    """A sandbox for the old tests, which almost every verification needs, begun before anything else is known."""
    _built_in: str | None = None
    """The sandbox whose git has the candidate's tree already."""
    _covered: tuple[str, bytes] | None = None
    """The coverage report that the candidate's checks left, by its path."""

    async def aclose(self) -> None:
        pending = [*self._ahead.values(), *([self._early] if self._early else [])]
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for sandbox in [*self._open]:
            self._end(sandbox)
        await self._ended()
        for ground in self._grounds:
            await ground.aclose()

    async def evidence(self, base: Base | None) -> tuple[Evidence, str]:
        candidate, patch = self.candidate, self.candidate.patch
        # The one sandbox in which nothing has run yet but, maybe, the base's own set-up.
        first = await (base.ground.open("candidate") if base and base.ground else self.maker.clone("candidate"))
        self._open.append(first)
        if base is not None and base.ground is not None and not candidate.changes_manifests:
            self._early = asyncio.create_task(self._opened(base.ground, "old_tests"))
        if base is None:
            files = await workspace.listing(first, candidate.base)
            setup, checks, _ = detect.applied(candidate.rules, await detected(first))
            base = Base(files=files, checks=checks, setup=setup)
        self.base = base
        rules = candidate.rules
        policy = Policy(
            repeat=rules.verification.repeat,
            tests=rules.verification.tests,
            weakened=rules.verification.weakened,
            unverified=rules.verification.unverified,
        )
        texts, before, tests = await self._read(first)
        findings = _findings(candidate, base.files, texts)
        evidence = Evidence(base=candidate.base, tree="", expected_tree="", findings=findings, policy=policy)
        if gate.refused(findings):
            return evidence, first.id
        try:
            expected = tree_id(base.files, patch)
        except ValueError as exc:
            raise PatchRefused(f"The change can't be published: {exc}.") from exc
        built = await workspace.build_tree(first, candidate.base, patch)
        self._built_in = first.id
        evidence = replace(evidence, tree=built, expected_tree=expected, documents_only=documents_only(patch))
        if built != expected:
            return evidence, first.id
        split = testfiles.split(patch, base.files, before, base.checks, policy.tests)
        flags = (*split.flags, *await asyncio.to_thread(tricks.look, patch, before, tests))
        redact = candidate.redact
        evidence = replace(
            evidence, flags=tuple(replace(flag, path=redact(flag.path), said=redact(flag.said)) for flag in flags)
        )
        try:
            self._allowed = await hosts(first, rules.network.checks)
            await self._grow(first)
            evidence = replace(evidence, runs=await self._runs(split))
        except (SetupFailed, RegistryUnknown) as exc:
            evidence = replace(evidence, problem=candidate.redact(str(exc)))
        ran = next((run.sandbox for run in evidence.runs if run.kind == "candidate" and run.sandbox), first.id)
        return replace(evidence, coverage=await self._coverage(before)), ran

    async def _read(self, sandbox: Sandbox) -> tuple[dict[str, str], dict[str, bytes], dict[str, bytes]]:
        """What the patch gate looks at, by its id; and by their paths base's versions of what changes, and the test
        files of both sides."""
        candidate, files = self.candidate, self.base.files
        changed = frozenset(candidate.patch.paths)
        globs = candidate.rules.verification.tests
        wanted = {entry.path: entry.sha for entry in testfiles.needed(candidate.patch, files, self.base.checks)}
        wanted |= {entry.path: entry.sha for entry in files if entry.path in changed and entry.mode.startswith("100")}
        of_tests = {entry.path: entry.sha for entry in files if testfiles.is_test(entry.path, globs)}
        some = dict(sorted(of_tests.items())[:TESTS_READ])
        ids = gate.needed(candidate.patch, files)
        found = await workspace.contents(sandbox, {**some, **wanted, **ids})
        texts = {name: found[name].decode("utf-8", "replace") for name in ids if name in found}
        before = {path: content for path, content in found.items() if path in wanted}
        tests = {path: content for path, content in found.items() if path in some}
        for change in candidate.patch.changes:
            if change.mode in ("100644", "100755") and testfiles.is_test(change.path, globs):
                tests[f"{change.path} (changed)"] = change.content
        return texts, before, tests

    async def _grow(self, first: Sandbox) -> None:
        """Makes the grounds that runs begin on: the base's, and the candidate's where its manifests differ."""
        maker, candidate, base = self.maker, self.candidate, self.base
        base_tree = tree_id(base.files, Patch())
        of_base = base.ground or Prepared(maker, candidate, Patch(), base_tree, base.files)
        self._grounds.append(of_base)
        self._of_base = self._of_candidate = of_base
        kept: Sandbox | None = first
        if candidate.changes_manifests:
            tree, files = tree_id(base.files, candidate.patch), patched(base.files, candidate.patch)
            self._of_candidate = own = Prepared(maker, candidate, candidate.patch, tree, files)
            self._grounds.append(own)
            if base.ground is None:
                self._open.remove(first)
                kept = await own.adopt("candidate", first)
                self._open.append(kept)
            else:
                # What the base's manifests have installed must not make up for what the candidate's leave out.
                self._end(first)
                kept = None
        elif isinstance(of_base, Prepared):
            self._open.remove(first)
            kept = await of_base.adopt("candidate", first)
            self._open.append(kept)
        self._first = kept

    async def _runs(self, split: Split) -> tuple[Run, ...]:
        """Stops where the candidate fails: the baseline is all that can still be said of that."""
        patch = self.candidate.patch
        kept = split.new_tests
        rest: list[tuple[RunKind, Patch]] = [("old_tests", split.old_tests)]
        if kept is not None:
            rest.append(("new_tests", kept))
        baseline = await self._known_baseline()
        if baseline is None:
            rest.insert(0, ("baseline", Patch()))
        try:
            ready = await self._prepare("candidate", patch, self._first)
        except (SandboxError, PoolFull):
            raise
        except (InfraError, OSError, ValueError) as exc:
            if self.base.ground is None:
                raise
            raise GroundUnusable(str(exc)) from exc
        for kind, tree in rest:
            self._look_ahead(kind, tree)
        seen = [await self._run("candidate", ready, self.base.checks)]
        for _ in range(self.candidate.rules.verification.repeat - 1):
            await self._ended()
            ready = await self._prepare("candidate", patch, None)
            seen.append(await self._run("candidate", ready, self.base.checks))
        is_red = any(check.is_red or says_nothing(check) for run in seen for check in run.checks)
        if baseline is None:
            baseline = await self._baseline()
        if is_red:
            return (*seen, baseline)
        runs = [*seen, baseline]
        old = await self._old_tests(split, seen[0])
        if old is not None:
            runs.append(old)
        if kept is not None and baseline.checks:
            ready = await self._take("new_tests", kept)
            runs.append(await self._run("new_tests", ready, _with_tests(self.base.checks, seen[0])))
        return tuple(runs)

    # The baseline

    def _baseline_key(self) -> str:
        rules = self.candidate.rules
        parts = [
            BASELINE_VERSION,
            tree_id(self.base.files, Patch()),
            self.image_id,
            [check.model_dump(mode="json") for check in self.base.checks],
            list(self.base.setup),
            sorted(rules.sandbox.env.items()),
            list(rules.network.checks),
            list(rules.network.setup or ()),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    async def _known_baseline(self) -> Run | None:
        known = await self.baselines.get(self._baseline_key())
        return None if known is None else replace(known, cached=True, sandbox=None)

    async def _baseline(self) -> Run:
        try:
            ready = await self._take("baseline", Patch())
        except SetupFailed:
            if not self.candidate.changes_manifests:
                raise
            # It may be the very thing that the patch mends: nothing can be compared then.
            return Run(kind="baseline", tree=tree_id(self.base.files, Patch()), checks=())
        run = await self._run("baseline", ready, self.base.checks)
        if not any(check.timed_out or check.exit_code == 137 for check in run.checks):
            # What a loaded machine does to a run is not to be remembered.
            await self.baselines.put(self._baseline_key(), run)
        return run

    # Tests as they were before

    async def _old_tests(self, split: Split, seen: Run) -> Run | None:
        is_other = split.old_tests != self.candidate.patch
        checks = self.base.checks if is_other else _with_tests(self.base.checks, seen)
        if not checks:
            return None
        ready = await self._take("old_tests", split.old_tests)
        results = {check.name: check for check in seen.checks}
        run = await self._run("old_tests", ready, checks, results, apart=is_other)
        doubted = [check for check in run.checks if check.canary == "missing" and not fails_beside_canary(check)]
        if not doubted:
            return run
        # Does the same command report them where nothing of the patch is?
        await self._ended()
        wanted = [check for check in self.base.checks if check.name in {each.name for each in doubted}]
        ready = await self._prepare("baseline", Patch(), None)
        control = await self._run("baseline", ready, wanted, results)
        unusable = {check.name for check in control.checks if check.canary != "seen"}
        return replace(
            run,
            checks=tuple(
                replace(check, canary="unusable") if check.canary == "missing" and check.name in unusable else check
                for check in run.checks
            ),
        )

    # Sandboxes

    def _look_ahead(self, kind: RunKind, patch: Patch) -> None:
        """Prepares a later run's sandbox beside the present run, if there is room for both."""

        async def prepare() -> _Ready | None:
            early, self._early = (self._early, None) if kind == "old_tests" else (None, self._early)
            sandbox = await (early or self._opened(self._ground_of(kind), kind))
            return None if sandbox is None else await self._prepare(kind, patch, sandbox)

        self._ahead[kind] = asyncio.create_task(prepare())

    def _ground_of(self, kind: RunKind) -> Ground:
        return self._of_candidate if kind in ("candidate", "old_tests") else self._of_base

    async def _opened(self, ground: Ground, kind: RunKind) -> Sandbox | None:
        """None where there is no room."""
        try:
            sandbox = await ground.open(kind.replace("_", "-"))
        except PoolFull:
            return None
        self._open.append(sandbox)
        return sandbox

    async def _take(self, kind: RunKind, patch: Patch) -> _Ready:
        task = self._ahead.pop(kind, None)
        ready = await task if task is not None else None
        if ready is not None:
            try:
                # It has waited for other runs to end.
                await ready.sandbox.extend(self.candidate.rules.sandbox.lifetime)
            except SandboxError as exc:
                if exc.reason != "gone":
                    raise
                self._end(ready.sandbox)
                ready = None
        if ready is None:
            await self._ended()
            ready = await self._prepare(kind, patch, None)
        return ready

    async def _prepare(self, kind: RunKind, patch: Patch, sandbox: Sandbox | None) -> _Ready:
        if sandbox is None:
            sandbox = await self._ground_of(kind).open(kind.replace("_", "-"))
            self._open.append(sandbox)
        tree, files = tree_id(self.base.files, patch), patched(self.base.files, patch)
        is_built = sandbox.id == self._built_in and kind == "candidate"
        if not is_built and await workspace.build_tree(sandbox, self.candidate.base, patch) != tree:
            raise InfraError(f"git in the sandbox does not come to the tree {tree}.")
        await workspace.check_out_exactly(sandbox, tree, files)
        return _Ready(sandbox=sandbox, tree=tree, files=files)

    def _end(self, sandbox: Sandbox) -> None:
        """Nobody waits for the end of one whose run is over, but for whoever needs its room."""
        self._open.remove(sandbox)
        self._ending.add(asyncio.create_task(self.maker.end(sandbox)))

    async def _ended(self) -> None:
        ending, self._ending = self._ending, set()
        await asyncio.gather(*ending)

    # Checks

    async def _run(
        self,
        kind: RunKind,
        ready: _Ready,
        checks: Sequence[Check],
        joined: Mapping[str, CheckResult] | None = None,
        *,
        apart: bool = False,
    ) -> Run:
        """Runs the checks and ends the sandbox. `joined` are results by which each check's canaries are made. With
        `apart` they join a run of their own: their failure would hide what else an exit code has to say."""
        sandbox = ready.sandbox
        await sandbox.allow(self._allowed)
        results: list[CheckResult] = []
        rewritten: list[str] = []
        # One for all checks: of two files of the same size and second, what Python has compiled counts for both.
        token = f"t{secrets.token_hex(6)}"
        for check in checks:
            plain = None
            if apart:
                plain, _ = await self._check(sandbox, check, None)
                await workspace.check_out_exactly(sandbox, ready.tree, ready.files)
            made = await self._join(ready, (joined or {}).get(check.name), token)
            if plain is not None and (made is None or plain.is_red or plain.timed_out):
                results.append(plain)
                continue
            result, found = await self._check(sandbox, check, made)
            results.append(result if plain is None else replace(plain, canary=result.canary))
            if kind == "candidate" and found is not None:
                self._covered = found
            if check is not checks[-1] or kind == "candidate":
                changed = await workspace.check_out_exactly(sandbox, ready.tree, ready.files)
                rewritten += [path for path in changed if made is None or path != made.path]
        self._end(sandbox)
        named = tuple(dict.fromkeys(self.candidate.redact(path) for path in rewritten))
        run = Run(kind=kind, tree=ready.tree, checks=tuple(results), sandbox=sandbox.id, rewritten=named)
        self.tell(run)
        return run

    async def _join(self, ready: _Ready, seen: CheckResult | None, token: str) -> canary.Canary | None:
        """Puts two tests of ours beside those that the check runs, if its runner is known."""
        if seen is None or seen.report is None:
            return None
        runner, ran = seen.report.runner, tuple(seen.report.tests or ())
        for entry in canary.sites(runner, ran, self.base.files)[:SITES]:
            with contextlib.suppress(OSError, ValueError, SandboxError):
                content = await ready.sandbox.read(f"{REPO}/{entry.path}", max_bytes=workspace.MANIFEST_LIMIT)
                if (made := canary.make(runner, entry, content, token)) is not None:
                    mode = 0o755 if entry.mode == "100755" else 0o644
                    await ready.sandbox.write(f"{REPO}/{made.path}", made.content, mode=mode)
                    return made
        return None

    async def _check(
        self, sandbox: Sandbox, check: Check, made: canary.Canary | None
    ) -> tuple[CheckResult, tuple[str, bytes] | None]:
        """The result, and the coverage report that it left."""
        rules, redact = self.candidate.rules, self.candidate.redact
        own = f"{SCRATCH}/report-{secrets.token_hex(8)}.xml"
        out_env = sandbox.proxy_env if rules.network.checks else {}
        env = {**reporting.asked(rules.sandbox.env, own), **out_env}
        tracked = {entry.path for entry in self.base.files} | set(self.candidate.patch.paths)
        coverages = [path for path in coverage.PATHS if path not in tracked]
        for path in [*([check.report] if check.report else []), *coverages]:
            # A report that lies there before the check has run was written by somebody else.
            with contextlib.suppress(OSError, ValueError):
                await sandbox.remove(f"{REPO}/{path}")
        result = await run_line(sandbox, check.run, env=env, timeout_s=check.timeout, trusted_status=True)
        if reporting.was_refused(result.exit_code, result.stderr.decode("utf-8", "replace")):
            result = await run_line(sandbox, check.run, env=out_env, timeout_s=check.timeout, trusted_status=True)
        left = await _left(sandbox, own)
        junit = (await _left(sandbox, f"{REPO}/{check.report}") if check.report else None) or left
        out, err = (stream.decode("utf-8", "replace") for stream in (result.stdout, result.stderr))
        said = None
        if not result.timed_out:
            said = await asyncio.to_thread(report.read, result.exit_code, out, err, junit)
        seen: Canary = "none" if made is None else _seen(made, said, result.exit_code, out + err)
        printed = tail(result, OUTPUT_KEPT).splitlines()  # that there is a report is our doing
        found = None
        for path in coverages if made is None else []:
            if (data := await _left(sandbox, f"{REPO}/{path}")) is not None:
                found = (path, data)
                break
        return (
            CheckResult(
                name=check.name,
                command=check.run,
                exit_code=result.exit_code,
                timed_out=result.timed_out,
                duration_s=result.duration_s,
                report=_redacted(said, self.candidate) if said else None,
                output=redact("\n".join(line for line in printed if own not in line)),
                canary=seen,
                canary_names=() if made is None else (made.passes, made.fails),
                left_report=left is not None,
            ),
            found,
        )

    async def _coverage(self, before: Mapping[str, bytes]) -> Coverage | None:
        if self._covered is None:
            return None
        return await asyncio.to_thread(coverage.of_changes, self.candidate.patch, before, *self._covered)


def _seen(made: canary.Canary, said: report.Report | None, exit_code: int, output: str) -> Literal["seen", "missing"]:
    outcomes, failing = ((said.tests or {}), said.failing) if said else ({}, ())
    told = canary.seen(made, outcomes=outcomes, failing=failing, exit_code=exit_code, output=output)
    return "seen" if told else "missing"


def _with_tests(checks: Sequence[Check], seen: Run) -> tuple[Check, ...]:
    """Those of the checks whose runner reported tests."""
    told = {check.name for check in seen.checks if check.report is not None}
    return tuple(check for check in checks if check.name in told)


def _redacted(said: report.Report, candidate: Candidate) -> report.Report:
    redact = candidate.redact
    tests = None if said.tests is None else {redact(name): outcome for name, outcome in said.tests.items()}
    failing = tuple(redact(name) for name in said.failing)
    return replace(said, tests=tests, failing=failing)


async def _left(sandbox: Sandbox, path: str) -> bytes | None:
    try:
        return await sandbox.read(path, max_bytes=REPORT_LIMIT)
    except (OSError, ValueError, SandboxError):
        return None


async def inspect(sandbox: Sandbox, candidate: Candidate, base: tuple[TreeEntry, ...]) -> tuple[Finding, ...]:
    """What the patch gate says of a candidate, as the sandbox has its base."""
    return _findings(candidate, base, await workspace.texts(sandbox, gate.needed(candidate.patch, base)))


def _findings(candidate: Candidate, base: tuple[TreeEntry, ...], before: Mapping[str, str]) -> tuple[Finding, ...]:
    found = gate.inspect(candidate.patch, base, before, candidate.rules, gate.kinds(candidate.redact))
    return tuple(replace(each, path=candidate.redact(each.path), said=candidate.redact(each.said)) for each in found)


def patched(base: tuple[TreeEntry, ...], patch: Patch) -> tuple[TreeEntry, ...]:
    """A tree's files with a patch applied."""
    return tuple(_patched(base, patch))


def _patched(base: tuple[TreeEntry, ...], patch: Patch) -> Iterator[TreeEntry]:
    changed = frozenset(patch.paths)
    yield from (entry for entry in base if entry.path not in changed)
    for change in patch.changes:
        if change.mode is not None:
            yield TreeEntry(mode=change.mode, type="blob", sha=blob_id(change.content), path=change.path)
