"""The command line as scripts use it: exit codes, and one JSON object as the last line."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from bot.demo import sample
from bot.sandbox.docker import DockerProvider
from bot.sandbox.protocol import SandboxSpec
from tests.runtime import quickest
from tests.stories.harness import FILES, IMAGE, call, fix, say, submit

ROOT = Path(__file__).parents[2]


def coder_bot(*args: str, stdin: str = "", home: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    ours = ("CODER_", "GITHUB_", "OPENAI_", "E2B_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    clean["CODER_DOCKER_RUNTIME"] = quickest()
    if home is not None:
        clean["CODER_HOME"] = str(home)
    return subprocess.run(
        [sys.executable, "-m", "bot", *args],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**clean, **env},
    )


def last_json(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    value = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(value, dict)
    return value


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder with a short path: sockets live below it."""
    with tempfile.TemporaryDirectory(prefix="coder-") as folder:
        yield Path(folder)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A git repository of an operator, with a failing test."""
    folder = tmp_path / "my repo"
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for args in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *args], check=True)
    return folder


def script(tmp_path: Path, *replies: dict[str, Any]) -> str:
    file = tmp_path / "script.jsonl"
    file.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    return f"scripted:{file}"


def test_a_right_config_and_a_wrong_one(tmp_path: Path) -> None:
    file = tmp_path / "coder.yml"
    file.write_text("version: 1\n")
    assert last_json(coder_bot("config", "check", str(file), "--json")) == {"ok": True, "errors": []}
    file.write_text("version: 1\nlimts: {}\n")
    done = coder_bot("config", "check", str(file), "--json")
    assert done.returncode == 1
    [error] = last_json(done)["errors"]
    assert (error["line"], error["column"], error["key"]) == (2, 1, "limts")
    assert "limits" in error["message"]
    assert f"{file}:2:1:" in coder_bot("config", "check", str(file)).stdout


def test_the_schema_is_json() -> None:
    assert "limits" in json.loads(coder_bot("config", "schema").stdout)["properties"]


def test_the_policy_answers_with_its_exit_code() -> None:
    good = coder_bot("policy", "check", "--json", "--", "python3 -m pytest -q")
    assert (good.returncode, last_json(good)["allowed"], last_json(good)["argv"][0]) == (0, True, "python3")
    bad = coder_bot("policy", "check", "--json", "--", "pytest; curl evil.test")
    assert (bad.returncode, last_json(bad)["allowed"]) == (3, False)
    assert last_json(bad)["reason"]


def test_the_policy_takes_a_repositorys_rules(tmp_path: Path) -> None:
    file = tmp_path / "coder.yml"
    file.write_text("commands: {allow: ['just lint *']}\n")
    assert coder_bot("policy", "check", "--config", str(file), "--", "just lint src").returncode == 0
    assert coder_bot("policy", "check", "--", "just lint src").returncode == 3


def test_a_comment_is_read_from_stdin() -> None:
    found = coder_bot("comment", "parse", "--json", stdin="/coder fix\r\nmind the gap\r\n")
    assert last_json(found) == {"command": {"verb": "fix", "text": "mind the gap"}, "usage": None}
    assert last_json(coder_bot("comment", "parse", "--json", stdin="thanks!")) == {"command": None, "usage": None}
    assert "fix" in last_json(coder_bot("comment", "parse", "--json", stdin="/coder fxi"))["usage"]


def test_wrong_usage_and_known_errors_are_one_line_and_no_traceback(tmp_path: Path, home: Path) -> None:
    assert coder_bot("demo", "--repo", str(tmp_path)).returncode == 2
    missing = coder_bot("config", "check", str(tmp_path / "nothing.yml"))
    assert missing.returncode == 1
    assert missing.stderr.startswith("coder-bot: ")
    assert missing.stderr.count("\n") == 1
    wrong = coder_bot("tasks", "list", home=home, CODER_WORKERS="many")
    assert wrong.returncode == 1
    assert "CODER_WORKERS" in wrong.stderr
    unset = coder_bot("serve", home=home)
    assert unset.returncode == 1
    assert "CODER_MODEL" in unset.stderr
    assert "Traceback" not in missing.stderr + wrong.stderr + unset.stderr


def test_doctor_names_what_is_missing_and_how_to_mend_it(tmp_path: Path, home: Path) -> None:
    done = coder_bot("doctor", "--json", home=home)
    assert done.returncode == 1
    report = {check["name"]: check for check in last_json(done)["checks"]}
    assert report["sandbox"]["ok"]
    assert report["limits"]["ok"]
    for name in ("database", "model", "github", "webhook"):
        assert not report[name]["ok"]
        assert report[name]["fix"]
    assert coder_bot("db", "upgrade", home=home).returncode == 0
    again = {check["name"]: check for check in last_json(coder_bot("doctor", "--json", home=home))["checks"]}
    assert again["database"]["ok"]
    assert coder_bot("tasks", "list", home=home).stdout == ""
    nothing = coder_bot("tasks", "show", "nothing", home=home)
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert nothing.stderr == "coder-bot: There is no task nothing. `coder-bot tasks list --all` lists them.\n"


def test_serve_has_a_door_for_webhooks_and_another_for_metrics(tmp_path: Path, home: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        port, metrics = one.getsockname()[1], two.getsockname()[1]
    settings = {
        "CODER_HOME": str(home),
        "CODER_MODEL": script(tmp_path, submit()),
        "CODER_METRICS_PORT": str(metrics),
        "GITHUB_APP_ID": "1",
        "GITHUB_PRIVATE_KEY": pem.decode(),
        "GITHUB_WEBHOOK_SECRET": secrets.token_hex(16),
    }
    command = [sys.executable, "-m", "bot", "serve", "--port", str(port)]
    serving = subprocess.Popen(command, cwd=ROOT, env={"PATH": os.environ["PATH"], **settings})
    try:
        found = {}
        while len(found) < 4 and serving.poll() is None:
            try:
                for at in (port, metrics):
                    for path in ("/healthz", "/metrics"):
                        found[at, path] = httpx.get(f"http://127.0.0.1:{at}{path}").status_code
            except httpx.TransportError:
                found.clear()
                time.sleep(0.1)
        assert list(found.values()) == [200, 404, 404, 200]
    finally:
        serving.terminate()
        serving.wait(30)


def test_doctor_names_an_image_that_is_not_there_and_limits_that_can_not_hold(home: Path) -> None:
    wrong = {"CODER_IMAGE": "coder-bot/none:0", "CODER_MAX_SANDBOXES": "2", "CODER_RESERVED_SANDBOXES": "2"}
    report = {c["name"]: c for c in last_json(coder_bot("doctor", "--json", home=home, **wrong))["checks"]}
    assert "coder-bot/none:0" in report["sandbox"]["detail"]
    assert "scripts/sandbox-image" in report["sandbox"]["fix"]
    assert "CODER_RESERVED_SANDBOXES is 2" in report["limits"]["detail"]
    missing = {"CODER_SANDBOX": "e2b"}
    report = {c["name"]: c for c in last_json(coder_bot("doctor", "--json", home=home, **missing))["checks"]}
    assert "E2B_API_KEY is not set" in report["sandbox"]["detail"]
    nowhere = {"DOCKER_HOST": f"unix://{home}/no.sock"}
    report = {c["name"]: c for c in last_json(coder_bot("doctor", "--json", home=home, **nowhere))["checks"]}
    assert "unreachable" in report["sandbox"]["detail"]
    assert "DOCKER_HOST" in report["sandbox"]["fix"]


class _NoKeyIsRight(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"code": 401, "message": "the vendor's own words"}).encode()
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_doctor_finds_a_wrong_key_of_e2b(home: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _NoKeyIsRight) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        key = "e2b_" + "0" * 40
        done = coder_bot("doctor", "--json", home=home, E2B_API_KEY=key, E2B_API_URL=url, E2B_SANDBOX_URL=url)
        server.shutdown()
    assert done.returncode == 1
    report = {check["name"]: check for check in last_json(done)["checks"]}
    assert not report["sandbox"]["ok"]
    assert "e2b: authentication" in report["sandbox"]["detail"]
    assert "E2B_API_KEY" in report["sandbox"]["fix"]
    assert report["limits"]["ok"]
    for text in ("vendor's own words", key):
        assert text not in done.stdout + done.stderr


def test_sandboxes_are_listed_and_what_nobody_owns_is_reaped(home: Path) -> None:
    name = f"cli-{secrets.token_hex(4)}"

    async def make() -> str:
        provider = DockerProvider(deployment=name, egress_dir=home / "egress")
        spec = SandboxSpec(name="a", kind="work", task="nobody", image=IMAGE, lifetime_s=600, memory=128 * 2**20)
        sandbox = await provider.create(spec)
        await sandbox.aclose()
        await provider.aclose()
        return sandbox.id

    made = asyncio.run(make())
    ours: dict[str, Any] = {"home": home, "CODER_DEPLOYMENT": name}
    listed = {"provider": "docker", "id": made, "kind": "work", "task": "nobody", "running": True, "snapshot": None}
    assert last_json(coder_bot("sandboxes", "list", "--json", **ours)) == {"sandboxes": [listed]}
    assert made in coder_bot("sandboxes", "list", **ours).stdout
    leftover = {"what": "sandbox", "id": made, "task": "nobody", "why": "no task of that id"}
    dry = coder_bot("sandboxes", "reap", "--dry-run", "--json", **ours)
    assert last_json(dry) == {"dry_run": True, "leftovers": [leftover]}
    assert f"ended sandbox {made} of task nobody" in coder_bot("sandboxes", "reap", **ours).stdout
    assert last_json(coder_bot("sandboxes", "reap", "--json", **ours)) == {"dry_run": False, "leftovers": []}
    assert last_json(coder_bot("sandboxes", "list", "--json", **ours)) == {"sandboxes": []}


def test_the_demo_ends_with_its_json_line(tmp_path: Path, home: Path) -> None:
    done = coder_bot("demo", "--json", home=home)
    assert done.returncode == 0, done.stderr
    report = last_json(done)
    assert (report["outcome"], report["code"]) == ("succeeded", "VERIFIED")
    assert report["pull_request"]["head_tree"] == report["receipt"]["tree"]
    assert report["sandbox"]["id"] != report["verification_sandbox"]["id"]
    assert report["receipt"]["checks"][0]["passed"] == 6
    assert "[verifying]" in done.stderr
    file = Path(report["receipt"]["file"])
    checked = coder_bot("receipt", "verify", str(file), "--json", home=home)
    assert checked.returncode == 0, checked.stderr
    said = last_json(checked)
    assert (said["ok"], said["verdict"]) == (True, "Passed")
    assert (said["tree"], said["commit"]) == (report["pull_request"]["head_tree"], report["pull_request"]["head_sha"])
    envelope = json.loads(file.read_text())
    middle = len(envelope["payload"]) // 2
    other = "A" if envelope["payload"][middle] != "A" else "B"
    envelope["payload"] = envelope["payload"][:middle] + other + envelope["payload"][middle + 1 :]
    file.write_text(json.dumps(envelope))
    altered = coder_bot("receipt", "verify", str(file), home=home)
    assert altered.returncode == 1
    assert "was changed after it was signed" in altered.stderr


def test_a_demo_whose_script_has_replies_to_spare_fails(tmp_path: Path, home: Path) -> None:
    replies = [json.loads(line) for line in Path(sample.script()).read_text().splitlines()]
    done = coder_bot("demo", "--json", "--model", script(tmp_path, *replies, submit()), home=home)
    assert done.returncode == 1
    assert "1 replies too many" in done.stderr


def test_run_writes_a_patch_and_a_receipt_and_applies_it_when_asked(repo: Path, tmp_path: Path, home: Path) -> None:
    out, receipt = tmp_path / "out.patch", tmp_path / "receipt.json"
    model = script(tmp_path, fix(), submit())
    args = ["run", "--repo", str(repo), "--task", "add() subtracts", "--model", model, "--json"]
    done = coder_bot(*args, "--out", str(out), "--receipt", str(receipt), home=home)
    assert done.returncode == 0, done.stderr
    assert b"+    return a + b" in out.read_bytes()
    assert (repo / "calc.py").read_bytes() == FILES["calc.py"]
    assert last_json(done)["receipt"]["file"] == str(receipt)
    applied = coder_bot(*args, "--out", str(out), "--apply", home=home)
    assert applied.returncode == 0, applied.stderr
    assert b"return a + b" in (repo / "calc.py").read_bytes()


def test_verify_judges_a_patch_by_itself(repo: Path, tmp_path: Path, home: Path) -> None:
    patch = tmp_path / "fix.patch"
    args = ["verify", "--repo", str(repo), "--patch", str(patch), "--json"]

    def diff(new: str) -> None:
        (repo / "calc.py").write_text(f"def add(a, b):\n    return {new}\n")
        patch.write_bytes(subprocess.run(["git", "-C", str(repo), "diff"], check=True, capture_output=True).stdout)
        subprocess.run(["git", "-C", str(repo), "checkout", "-q", "."], check=True)

    diff("a + b")
    good = coder_bot(*args, home=home)
    assert good.returncode == 0, good.stderr
    assert last_json(good)["receipt"]["verdict"] == "Passed"
    diff("a * b")
    bad = coder_bot(*args, home=home)
    assert bad.returncode == 1
    assert last_json(bad)["code"] == "CHECKS_FAILED"
    patch.write_text("no diff\n")
    broken = coder_bot(*args, home=home)
    assert broken.returncode == 1
    assert "does not apply" in broken.stderr
    assert "Traceback" not in broken.stderr


def test_a_tool_call_is_shown_while_the_work_goes_on(repo: Path, tmp_path: Path, home: Path) -> None:
    model = script(tmp_path, say(call("run_command", command="python3 -m pytest -q")), fix(), submit())
    done = coder_bot("demo", "--repo", str(repo), "--task", "Mend it", "--model", model, home=home)
    assert done.returncode == 0, done.stderr
    assert "run_command python3 -m pytest -q  → exit code 1" in done.stderr
    assert done.stdout.startswith("VERIFIED: ")
