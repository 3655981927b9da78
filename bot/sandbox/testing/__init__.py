"""The contract that every provider of sandboxes keeps, as tests to inherit.

    class TestMySandbox(SandboxContract):
        @pytest.fixture
        async def provider(self): ...

        @pytest.fixture
        async def another(self): ...

`provider` must have been made with `private_hosts` holding `127.0.0.1`, for a deployment of its own, and is closed by
the fixture that made it; `another` makes more on the same service, see `fixtures.Who`. Where this machine's loopback
is nothing that the service can reach, the class gives `web` and `other_web` too. The image needs Python 3 and a POSIX
shell; this machine is a Linux. `asyncio_mode = "auto"` is expected of pytest, and
`pytest.register_assert_rewrite("bot.sandbox.testing")` before the import makes failures speak.
"""

from __future__ import annotations

from bot.sandbox.testing.commands import CommandClauses
from bot.sandbox.testing.ends import EndClauses
from bot.sandbox.testing.epochs import EpochClauses
from bot.sandbox.testing.files import FileClauses
from bot.sandbox.testing.fixtures import FETCH, Another, Make, SandboxFixtures, Web, Who
from bot.sandbox.testing.hostile import HostileClauses
from bot.sandbox.testing.life import LifeClauses
from bot.sandbox.testing.network import NetworkClauses
from bot.sandbox.testing.snapshots import SnapshotClauses
from bot.sandbox.testing.walls import WallClauses

__all__ = ["FETCH", "Another", "Make", "SandboxContract", "SandboxFixtures", "Web", "Who"]


class SandboxContract(
    CommandClauses,
    EndClauses,
    FileClauses,
    LifeClauses,
    EpochClauses,
    SnapshotClauses,
    NetworkClauses,
    WallClauses,
    HostileClauses,
    SandboxFixtures,
):
    """What the bot relies on, clause by clause."""
