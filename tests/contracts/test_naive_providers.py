"""The contract notices what real products got wrong: each naive provider fails the clause that names its fault. That
the same clause holds on the provider below it is shown by test_docker_sandbox."""

from __future__ import annotations

import inspect
import re
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.register_assert_rewrite("bot.sandbox.testing")

from bot.sandbox.docker import DockerProvider  # noqa: E402 - after the line that makes the contract's asserts speak
from bot.sandbox.testing import Another, SandboxContract, SandboxFixtures, Who  # noqa: E402
from tests.contracts.naive import NAIVE, Naive  # noqa: E402

PATIENCE_S = 15.0
"""How long a clause waits here for what is not going to happen."""


class Cases(SandboxFixtures):
    """One clause; `naive` lies over the provider."""

    naive: ClassVar[type[Naive]]

    @pytest.fixture
    def deployment(self) -> str:
        return f"test-{secrets.token_hex(6)}"

    @pytest.fixture
    def egress_dir(self) -> Iterator[Path]:
        path = Path(tempfile.mkdtemp(prefix="egress-"))
        yield path
        shutil.rmtree(path)

    @pytest.fixture
    async def honest(self, deployment: str, egress_dir: Path) -> AsyncIterator[DockerProvider]:
        made = DockerProvider(deployment=deployment, egress_dir=egress_dir, private_hosts=frozenset({"127.0.0.1"}))
        yield made
        for info in await made.list():
            await made.kill(info.id)
        for kept in await made.snapshots():
            await made.drop_snapshot(kept.id)
        await made.aclose()

    @pytest.fixture
    def provider(self, honest: DockerProvider) -> Any:
        return self.naive(honest)

    @pytest.fixture
    async def another(self, deployment: str, egress_dir: Path) -> AsyncIterator[Another]:
        made: list[DockerProvider] = []

        def another(who: Who) -> Any:
            made.append(
                DockerProvider(
                    deployment=deployment + "-stranger" * (who == "stranger"),
                    egress_dir=egress_dir,
                    private_hosts=frozenset() if who == "cautious" else frozenset({"127.0.0.1"}),
                    docker_host=f"unix://{egress_dir}/none" * (who == "unreachable") or "unix:///var/run/docker.sock",
                )
            )
            return self.naive(made[-1])

        yield another
        for one in made:
            await one.aclose()

    @pytest.fixture(autouse=True)
    def impatience(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bot.sandbox.testing.fixtures.LONG_S", PATIENCE_S)


def _takes_its_fixtures(naive: type[Naive], test: Callable[..., Coroutine[Any, Any, None]]) -> Any:
    """The test asks pytest for the clause's fixtures, less the arguments that the naive provider sets."""
    asked = inspect.signature(naive.clause).parameters.values()
    kept = [parameter for parameter in asked if parameter.name not in naive.arguments]
    test.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]  # read by inspect.signature
    return test


def _fails(naive: type[Naive]) -> Any:
    async def test(self: Cases, **fixtures: Any) -> None:
        # A clause fails in as many ways as a test does: an assertion, an error, a time-out.
        with pytest.raises((Exception, pytest.fail.Exception)) as raised:
            await naive.clause(self, **fixtures, **naive.arguments)
        said = f"{raised.typename}: {raised.value}"
        assert re.search(naive.shown, said), said

    return _takes_its_fixtures(naive, test)


for _naive in NAIVE:
    _name = f"Test{_naive.__name__}"
    _own = {"naive": _naive, "test_fails_the_clause_that_names_it": _fails(_naive), "__module__": __name__}
    globals()[_name] = type(_name, (Cases,), _own)


@pytest.mark.parametrize("naive", NAIVE, ids=lambda naive: naive.__name__)
def test_each_names_a_clause_of_the_contract(naive: type[Naive]) -> None:
    assert getattr(SandboxContract, naive.clause.__name__) is naive.clause


def test_the_contract_is_as_large_as_promised() -> None:
    clauses = [name for name in dir(SandboxContract) if name.startswith("test_")]
    assert len(clauses) >= 45
