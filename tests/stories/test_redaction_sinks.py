"""A secret that was planted reaches no place where this process's words leave it."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.domain.redaction import MASK
from bot.domain.task import Job, Stage
from bot.pipeline import stages
from bot.sandbox.workspace import CloneFailed
from tests.stories.harness import FILES, story, with_config

ROOT = Path(__file__).parents[2]

# A process as `coder-bot serve` is one; each line that it writes begins with the name of its sink.
PROCESS = r"""
import asyncio, base64, gc, json, logging, sys, threading, warnings
import structlog
from bot import sinks
from bot.domain.redaction import Redactor

own, token, clean = sys.stdin.read().split("\n")
url = f"https://x-access-token:{token}@github.test/o/r"
basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
said = f"{own} {url} http.extraheader=AUTHORIZATION: basic {basic} {basic}\n{own}"

def fail():
    try:
        raise ValueError(f"cause {said}")
    except ValueError as exc:
        raise RuntimeError(f"clone failed: {said}") from exc

class Strange:
    def __repr__(self):
        return f"strange {said}"

redactor = Redactor()
if clean == "clean":
    sinks.install(redactor)
    sinks.logs(logging.INFO, redactor)
    redactor.keep([own])
print("stdout", said)
print("json", json.dumps({"detail": said}))
sys.stdout.write("pieces " + own[:9]); sys.stdout.write(own[9:] + "\n")
sys.stdout.flush()
print("stderr", said, file=sys.stderr)
log = structlog.get_logger()
log.info("event", reason=said, nested={"deep": [said, Strange()]}, **{f"key {own}": 1})
try:
    fail()
except RuntimeError:
    log.exception("structlog")
    logging.getLogger("uvicorn.error").exception("uvicorn %s", said)
for name in ("httpx", "e2b", "sqlalchemy.pool", "githubkit", "asyncio"):
    logging.getLogger(name).warning("library %s", said)
warnings.warn(f"warning {own}", stacklevel=1)

async def unseen():
    asyncio.create_task(later())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gc.collect()

async def later():
    fail()

asyncio.run(unseen())
thread = threading.Thread(target=fail)
thread.start(); thread.join()
fail()
"""


def process(own: str, token: str, how: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROCESS],
        input=f"{own}\n{token}\n{how}",
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    return done.stdout + done.stderr


def secrets_of(own: str, token: str) -> Iterator[str]:
    for value in (own, token):
        yield value
        yield json.dumps(value)[1:-1]
        for before in ("", "x", "xy", "x-access-token:"):
            yield base64.b64encode((before + value).encode()).decode().rstrip("=")[4:-4]


def test_no_sink_of_the_process_lets_a_secret_out(token: str) -> None:
    own = 'w9+/"\\' + token[5:30]
    written = process(own, token, "clean")
    assert not [each for each in secrets_of(own, token) if each in written]
    sinks = ("stdout", "json", "pieces", "stderr", "event", "structlog", "uvicorn", "library", "warning", "strange")
    for sink in (*sinks, "cause", "clone failed", "never retrieved", "Exception in thread", "Traceback"):
        assert sink in written
    logged = [json.loads(line) for line in written.splitlines() if line.startswith("{")]
    assert len(logged) == 10
    assert all(MASK in json.dumps(line) for line in logged)
    # The control: the same process without what cleans its sinks.
    assert [each for each in secrets_of(own, token) if each in process(own, token, "as it was")]


def test_the_command_line_prints_no_secret(token: str, tmp_path: Path) -> None:
    config = tmp_path / "coder.yml"
    config.write_text(f"{token}: 1\n")
    for args in (
        ["config", "check", str(config)],
        ["config", "check", str(config), "--json"],
        ["policy", "check", token],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "bot", *args], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
        assert MASK in done.stdout
        assert token not in done.stdout + done.stderr
    missing = [sys.executable, "-m", "bot", "config", "check", str(tmp_path / token)]
    done = subprocess.run(missing, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, MASK in done.stderr, token in done.stderr) == (1, True, False)


async def test_a_failed_clone_tells_no_token() -> None:
    """The error's text holds the token in an address, and in base64 as git's header has it."""
    files = with_config("sandbox: {image: no-such-image:here}\n", **{name: FILES[name] for name in ("calc.py",)})
    async with story(files, CODER_IMAGES="no-such-image:here") as s:
        await s.comment()
        await s.settle()
        [task] = await s.bot.deps.store.tasks()
        async with s.bot.deps.github.token(task.installation_id, task.name, {"contents": "read"}) as token:
            basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        address = f"https://x-access-token:{token}@github.test/o/r"
        own = s.settings.secrets[1]
        failed = CloneFailed(
            f"Cloning failed:\nfatal: {address} http.extraheader=AUTHORIZATION: basic {basic}\n{basic}\n{own}"
        )
        job = Job(id=0, stage=Stage.PROVISION, key=task.id, attempts=1)
        await stages.give_up(s.bot.deps, job, failed)
        await s.settle()
        assert await s.code() == "CLONE_FAILED"
        said = "\n".join(s.comments)
        rows = b"".join(path.read_bytes() for path in Path(s.settings.coder_home).rglob("coder.db*"))
        assert MASK in said
        assert MASK.encode() in rows
        for secret in secrets_of(own, token):
            assert secret not in said
            assert secret.encode() not in rows


@pytest.fixture
def token() -> str:
    return "_".join(["ghs", "123456", "eyJ" + "hbGciOiJSUzI1NiJ9", "Ab1-" * 40])
