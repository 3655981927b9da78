"""What every engine promises, tried on the embedded one over both databases."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.db.store import Store
from bot.domain.errors import GitHubError, InfraError, LeaseLost, UserError
from bot.domain.task import Job, Postponed, Stage
from bot.engine.embedded import ATTEMPTS, EmbeddedEngine, exclusive

START = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


class Recorder:
    """Runs stages by noting them; `fail` makes the next runs raise, `postpone` makes them find no sandbox."""

    def __init__(self) -> None:
        self.ran: list[tuple[Stage, str]] = []
        self.given_up: list[tuple[str, str]] = []
        self.fail: list[Exception] = []
        self.postpone: list[Postponed] = []
        self.most_at_once = 0
        self.at_once = 0
        self.hold: asyncio.Event | None = None

    async def run(self, job: Job) -> Postponed | None:
        self.ran.append((job.stage, job.key))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.hold is not None:
                await self.hold.wait()
            if self.fail:
                raise self.fail.pop(0)
            return self.postpone.pop(0) if self.postpone else None
        finally:
            self.at_once -= 1

    async def give_up(self, job: Job, error: Exception) -> None:
        self.given_up.append((job.key, str(error)))


class EngineContract:
    """Clauses every engine keeps; an implementer supplies the fixtures `engine`, `recorder` and `clock`."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def recorder(self) -> Recorder:
        return Recorder()

    async def test_an_enqueued_stage_runs(self, engine: EmbeddedEngine, recorder: Recorder) -> None:
        await engine.enqueue(Stage.EPISODE, "a")
        await engine.settle()
        assert recorder.ran == [(Stage.EPISODE, "a")]

    async def test_a_stage_enqueued_twice_while_it_waits_runs_once(
        self, engine: EmbeddedEngine, recorder: Recorder
    ) -> None:
        await engine.enqueue(Stage.EPISODE, "a")
        await engine.enqueue(Stage.EPISODE, "a")
        await engine.settle()
        assert recorder.ran == [(Stage.EPISODE, "a")]

    async def test_a_stage_enqueued_while_it_runs_runs_again(
        self, engine: EmbeddedEngine, recorder: Recorder
    ) -> None:
        recorder.hold = asyncio.Event()
        await engine.enqueue(Stage.EPISODE, "a")
        settling = asyncio.create_task(engine.settle())
        while not recorder.ran:
            await asyncio.sleep(0)
        await engine.enqueue(Stage.EPISODE, "a")
        recorder.hold.set()
        await settling
        assert recorder.ran == [(Stage.EPISODE, "a")] * 2

    async def test_one_key_is_never_worked_on_twice_at_once(self, engine: EmbeddedEngine, recorder: Recorder) -> None:
        for stage in (Stage.PROVISION, Stage.EPISODE, Stage.VERIFY):
            await engine.enqueue(stage, "a")
        await engine.settle()
        assert len(recorder.ran) == 3
        assert recorder.most_at_once == 1

    async def test_different_keys_are_worked_on_side_by_side(
        self, engine: EmbeddedEngine, recorder: Recorder
    ) -> None:
        recorder.hold = asyncio.Event()
        await engine.enqueue(Stage.EPISODE, "a")
        await engine.enqueue(Stage.EPISODE, "b")
        settling = asyncio.create_task(engine.settle())
        while len(recorder.ran) < 2:
            await asyncio.sleep(0)
        recorder.hold.set()
        await settling
        assert recorder.most_at_once == 2

    async def test_a_later_stage_waits_for_its_time(
        self, engine: EmbeddedEngine, recorder: Recorder, clock: Clock
    ) -> None:
        await engine.enqueue(Stage.CLEANUP, "a", START + timedelta(hours=1))
        await engine.settle()
        assert recorder.ran == []
        clock.now += timedelta(hours=1)
        await engine.settle()
        assert recorder.ran == [(Stage.CLEANUP, "a")]

    async def test_a_retryable_failure_is_tried_again_later_and_then_given_up(
        self, engine: EmbeddedEngine, recorder: Recorder, clock: Clock
    ) -> None:
        recorder.fail = [InfraError("engine is down", retryable=True) for _ in range(ATTEMPTS)]
        await engine.enqueue(Stage.EPISODE, "a")
        for _ in range(ATTEMPTS):
            await engine.settle()
            clock.now += timedelta(hours=1)
        assert len(recorder.ran) == ATTEMPTS
        assert recorder.given_up == [("a", "engine is down")]

    async def test_a_retry_waits_as_long_as_github_asks_for(
        self, engine: EmbeddedEngine, recorder: Recorder, clock: Clock
    ) -> None:
        recorder.fail = [GitHubError("slow down", status=429, retryable=True, retry_after_s=600)]
        await engine.enqueue(Stage.EPISODE, "a")
        await engine.settle()
        clock.now += timedelta(seconds=599)
        await engine.settle()
        assert len(recorder.ran) == 1
        clock.now += timedelta(seconds=1)
        await engine.settle()
        assert len(recorder.ran) == 2

    async def test_what_github_has_told_to_wait_is_not_given_up_for_it_and_nothing_hastens_it(
        self, engine: EmbeddedEngine, recorder: Recorder, clock: Clock
    ) -> None:
        limit = GitHubError("slow down", status=403, retryable=True, retry_after_s=3600)
        recorder.fail = [limit for _ in range(3 * ATTEMPTS)]
        await engine.enqueue(Stage.PUBLISH, "a")
        for ran in range(1, 3 * ATTEMPTS + 1):
            await engine.settle()
            assert len(recorder.ran) == ran
            engine.freed()  # it does not wait for a sandbox
            clock.now += timedelta(seconds=3599)
            await engine.settle()
            assert len(recorder.ran) == ran
            clock.now += timedelta(seconds=1)
        recorder.fail += [InfraError("engine is down", retryable=True) for _ in range(ATTEMPTS)]
        for _ in range(ATTEMPTS):
            await engine.settle()
            clock.now += timedelta(hours=1)
        assert len(recorder.ran) == 4 * ATTEMPTS, "all its attempts are left for what else may go wrong"
        assert recorder.given_up == [("a", "engine is down")]

    async def test_a_limit_that_trying_again_does_not_help_against_is_given_up_at_once(
        self, engine: EmbeddedEngine, recorder: Recorder
    ) -> None:
        recorder.fail = [GitHubError("no", status=403, retryable=False, retry_after_s=60)]
        await engine.enqueue(Stage.PUBLISH, "a")
        await engine.settle()
        assert recorder.given_up == [("a", "no")]

    async def test_what_can_not_be_retried_is_given_up_at_once(
        self, engine: EmbeddedEngine, recorder: Recorder, clock: Clock
    ) -> None:
        recorder.fail = [InfraError("no such image"), ValueError("a bug")]
        await engine.enqueue(Stage.EPISODE, "a")
        await engine.enqueue(Stage.EPISODE, "b")
        await engine.settle()
        clock.now += timedelta(hours=1)
        await engine.settle()
        assert sorted(recorder.given_up) == [("a", "no such image"), ("b", "a bug")]
        assert len(recorder.ran) == 2

    async def test_a_postponed_stage_runs_again_at_its_time_as_often_as_it_takes(
        self, engine: EmbeddedEngine, recorder: Recorder, clock: Clock
    ) -> None:
        times = 2 * ATTEMPTS
        recorder.postpone = [Postponed(until=START + timedelta(seconds=15 * (n + 1))) for n in range(times)]
        await engine.enqueue(Stage.PROVISION, "a")
        for _ in range(times):
            await engine.settle()
            clock.now += timedelta(seconds=14)
            await engine.settle()
            clock.now += timedelta(seconds=1)
        await engine.settle()
        assert len(recorder.ran) == times + 1
        assert recorder.given_up == []

    async def test_a_postponed_stage_runs_as_soon_as_a_sandbox_is_free(
        self, engine: EmbeddedEngine, recorder: Recorder
    ) -> None:
        recorder.postpone = [Postponed(until=START + timedelta(seconds=15))]
        await engine.enqueue(Stage.PROVISION, "a")
        await engine.settle()
        assert len(recorder.ran) == 1
        engine.freed()
        await engine.settle()
        assert len(recorder.ran) == 2
        engine.freed()  # nothing waits for it any more
        await engine.settle()
        assert len(recorder.ran) == 2

    async def test_a_run_that_lost_its_lease_ends_quietly(self, engine: EmbeddedEngine, recorder: Recorder) -> None:
        recorder.fail = [LeaseLost("taken over")]
        await engine.enqueue(Stage.EPISODE, "a")
        await engine.settle()
        assert recorder.given_up == []
        assert len(recorder.ran) == 1

    async def test_preempting_ends_the_running_stage(self, engine: EmbeddedEngine, recorder: Recorder) -> None:
        recorder.hold = asyncio.Event()
        await engine.enqueue(Stage.EPISODE, "a")
        settling = asyncio.create_task(engine.settle())
        while not recorder.ran:
            await asyncio.sleep(0)
        await engine.preempt("a")
        assert recorder.at_once == 0
        await settling


class TestEmbeddedEngine(EngineContract):
    @pytest.fixture
    def engine(self, store: Store, recorder: Recorder, clock: Clock) -> EmbeddedEngine:
        return EmbeddedEngine(store, run=recorder.run, give_up=recorder.give_up, clock=clock, workers=2)

    async def test_what_was_running_when_the_process_died_runs_again(
        self, store: Store, engine: EmbeddedEngine, recorder: Recorder, clock: Clock
    ) -> None:
        await store.add_job(Stage.EPISODE, "a", START)
        assert await store.start_job(START, busy=()) is not None  # and the process dies here
        await engine.settle()
        assert recorder.ran == []
        await engine.recover()
        await engine.settle()
        assert recorder.ran == [(Stage.EPISODE, "a")]

    async def test_serving_runs_what_becomes_due_until_it_is_cancelled(
        self, engine: EmbeddedEngine, recorder: Recorder
    ) -> None:
        serving = asyncio.create_task(engine.serve())
        await engine.enqueue(Stage.EPISODE, "a")
        while not recorder.ran:
            await asyncio.sleep(0.01)
        serving.cancel()
        await asyncio.wait([serving])
        assert serving.cancelled()

    def test_a_second_process_on_the_same_home_is_refused_with_the_first_ones_number(self, tmp_path: Path) -> None:
        import os

        with exclusive(tmp_path), pytest.raises(UserError, match=str(os.getpid())), exclusive(tmp_path):
            pass
        with exclusive(tmp_path):
            pass  # the lock is free again
