"""`coder-bot receipt`: receipts are checked offline, against a key and a repository, and nothing fools the check."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner

from bot import signing
from bot.cli import app
from bot.domain import attestation
from bot.domain.errors import CoderError
from bot.settings import Settings, load
from bot.web.keys import PATH
from tests import planted
from tests.adapters.test_cli import coder_bot
from tests.adapters.test_host_git import git
from tests.domain.test_attestation import CHECK, DOCUMENT

SHA = "7" * 40


@pytest.fixture
def ours(tmp_path: Path) -> Settings:
    return load({"CODER_HOME": str(tmp_path / "home")})


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q")
    commit(folder, "one\n")
    return folder


def commit(repo: Path, text: str) -> str:
    (repo / "a.txt").write_text(text)
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "change")
    return git(repo, "rev-parse", "HEAD")


def written(file: Path, ours: Settings, **changes: Any) -> str:
    file.write_text(json.dumps(signing.load(ours).sign({**DOCUMENT, **changes}), indent=2) + "\n")
    return str(file)


def at_head(file: Path, ours: Settings, repo: Path, **changes: Any) -> str:
    """A receipt for what a repository has checked out."""
    head = {"tree": git(repo, "rev-parse", "HEAD^{tree}"), "commit": git(repo, "rev-parse", "HEAD")}
    return written(file, ours, **{**head, **changes})


def verify(*args: str, ours: Settings | None = None, stdin: str = "") -> dict[str, Any]:
    """What it says as JSON, in this process; as a line it has to come to the same."""
    known = {name: None for name in os.environ if name.startswith("CODER_")}
    runner = CliRunner(env={**known, "CODER_HOME": str(ours.coder_home if ours else "/nonexistent")})
    done = runner.invoke(app, ["receipt", "verify", *args, "--json"], input=stdin)
    said = json.loads(done.stdout)
    assert isinstance(said, dict)
    assert (done.exit_code, done.stderr) == (0 if said["ok"] else 1, "")
    line = runner.invoke(app, ["receipt", "verify", *args], input=stdin)
    if said["ok"]:
        assert said["error"] is None
        assert (line.exit_code, line.stdout[:7], line.stdout.count("\n"), line.stderr) == (0, "valid: ", 1, "")
    else:
        assert isinstance(line.exception, CoderError)
        assert (str(line.exception), line.stdout, line.stderr) == (said["error"], "", "")
    return said


@contextmanager
def served(pages: Mapping[str, tuple[int, dict[str, str], bytes]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = pages[self.path]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_receipt_verifies_with_this_installations_own_key(ours: Settings, repo: Path, tmp_path: Path) -> None:
    file = at_head(tmp_path / "r.json", ours, repo)
    keyid = signing.load(ours).keyid
    tree, head = git(repo, "rev-parse", "HEAD^{tree}"), git(repo, "rev-parse", "HEAD")
    done = coder_bot("receipt", "verify", file, "--repo", str(repo), home=ours.coder_home)
    assert done.stdout == (
        f"valid: Passed for tree {tree[:12]}, commit {head[:12]}, in octo/sample, 12 tests passed, signed by {keyid} "
        f"at 2026-01-01T00:00:00+00:00, that commit in {repo} has that tree\n"
    )
    assert verify(file, "--repo", str(repo), ours=ours) == {
        "ok": True,
        "verdict": "Passed",
        "repository": "octo/sample",
        "base": DOCUMENT["base"],
        "tree": tree,
        "commit": head,
        "keyid": keyid,
        "note": f"that commit in {repo} has that tree",
        "error": None,
    }
    assert verify("-", ours=ours, stdin=Path(file).read_text())["ok"]


@pytest.mark.parametrize(("verdict", "draft"), [("Failed", False), ("Unverified", True)])
def test_a_receipt_that_says_failed_is_valid_and_says_so(
    ours: Settings, tmp_path: Path, verdict: str, draft: bool
) -> None:
    failed = {**CHECK, "exit_code": 1, "passed": 3, "failed": 2, "skipped": 1}
    unknown = {**CHECK, "name": "lint", "passed": None, "failed": None, "skipped": None}
    changes = {"verdict": verdict, "draft": draft, "checks": [failed, unknown], "commit": None}
    file = written(tmp_path / "r.json", ours, **changes)
    assert verify(file, ours=ours)["verdict"] == verdict
    said = coder_bot("receipt", "verify", file, home=ours.coder_home).stdout
    mark = " (draft)" if draft else ""
    assert said.startswith(
        f"valid: {verdict}{mark} for tree {SHA[:12]} in octo/sample, 3 tests passed, 2 tests failed, "
    )


def test_keys_are_given_as_pem_as_a_document_or_by_their_address(ours: Settings, tmp_path: Path) -> None:
    file = written(tmp_path / "r.json", ours)
    [key] = signing.known(ours)
    pem, document, other = tmp_path / "key.pem", tmp_path / "keys.json", tmp_path / "other.pem"
    pem.write_text(key.pem)
    printed = coder_bot("receipt", "keys", home=ours.coder_home).stdout
    assert json.loads(printed) == signing.document([key])
    document.write_text(printed)
    elsewhere = load({"CODER_HOME": str(tmp_path / "elsewhere")})
    signing.load(elsewhere)
    other.write_text(signing.known(elsewhere)[0].pem)
    bare = load({"CODER_HOME": str(tmp_path / "bare")})
    for keys in ([pem], [document], [other, pem]):
        given = [word for each in keys for word in ("--key", str(each))]
        assert verify(file, *given, ours=bare)["keyid"] == key.keyid
    said = verify(file, "--key", str(other), ours=ours)
    assert said["error"] == f"The receipt is signed by {key.keyid}, which is none of the keys that are trusted here."
    assert (said["verdict"], said["tree"], said["keyid"]) == (None, None, None)
    assert "give --key" in verify(file, ours=bare)["error"]
    assert not bare.coder_home.exists()
    assert "holds a private key" in verify(file, "--key", str(ours.coder_home / "keys" / "receipt.pem"))["error"]
    assert "can't be read: No such file" in verify(file, "--key", str(tmp_path / "none.pem"))["error"]


def test_published_keys_are_fetched_within_bounds(ours: Settings, tmp_path: Path) -> None:
    file = written(tmp_path / "r.json", ours)
    keys = json.dumps(signing.document(signing.known(ours))).encode()
    pages: dict[str, tuple[int, dict[str, str], bytes]] = {
        PATH: (200, {"content-type": "application/json"}, keys),
        "/moved": (302, {"location": PATH}, b""),
        "/round": (302, {"location": "/round"}, b""),
        "/away": (302, {"location": "http://127.0.0.1:1/keys"}, b""),
        "/missing": (404, {}, keys),
        "/huge": (200, {}, b" " * (1024**2) + keys),
        "/html": (200, {}, b"<html>"),
    }
    with served(pages) as origin:
        assert verify(file, "--key", origin + PATH)["ok"]
        assert verify(file, "--key", f"{origin}/moved")["ok"]
        for path, said in {
            "/round": "redirects without an end",
            "/away": "redirects to another origin",
            "/missing": "answers with status 404",
            "/huge": "is larger than 1024 KiB",
            "/html": "holds no public Ed25519 key",
        }.items():
            assert verify(file, "--key", origin + path)["error"].startswith(f"{origin}{path} {said}")
    assert "can't be fetched" in verify(file, "--key", f"{origin}/gone")["error"]
    assert "can't be fetched" in verify(file, "--key", "https://")["error"]


def test_a_receipt_of_a_retired_key_verifies_and_says_when_that_was(ours: Settings, tmp_path: Path) -> None:
    file = written(tmp_path / "r.json", ours)
    old = signing.load(ours).keyid
    done = coder_bot("receipt", "rotate", home=ours.coder_home)
    new = signing.load(ours).keyid
    assert (done.returncode, new != old, new in done.stdout) == (0, True, True)
    assert verify(file, ours=ours)["keyid"] == old
    said = coder_bot("receipt", "verify", file, home=ours.coder_home).stdout
    assert f"signed by {old} at 2026-01-01T00:00:00+00:00, a key retired at 20" in said
    broken = ours.coder_home / "keys" / "receipt.pem"
    broken.write_text("")
    for words in (["rotate"], ["keys"], ["verify", file]):
        done = coder_bot("receipt", *words, home=ours.coder_home)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"coder-bot: {broken} is empty: ")
        assert done.stderr.count("\n") == 1
    assert broken.read_text() == ""


def test_one_byte_changed_makes_it_fail(ours: Settings, tmp_path: Path) -> None:
    good = Path(written(tmp_path / "r.json", ours)).read_bytes()
    changed = tmp_path / "changed.json"
    for at in range(0, len(good), len(good) // 20):
        changed.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert not verify(str(changed), ours=ours)["ok"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe\x00",
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b" " * (5 * 1024**2),
        json.dumps({**attestation.envelope(b"{}", {"\ud800\x1b[31m": b""}), "payload": "\ud800"}).encode(),
        json.dumps(attestation.envelope(b"{}", {"\ud800\x1b[31m": b""})).encode(),
        b'{"payload": "", "payloadType": "\\u001b[31m", "signatures": []}',
        json.dumps(DOCUMENT).encode(),
    ],
    ids=range(9),
)
def test_hostile_files_are_one_line_and_never_a_traceback(ours: Settings, tmp_path: Path, data: bytes) -> None:
    signing.load(ours)
    file = tmp_path / "hostile.json"
    file.write_bytes(data)
    said = verify(str(file), ours=ours)
    assert not said["ok"]
    done = coder_bot("receipt", "verify", str(file), home=ours.coder_home)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"coder-bot: {said['error']}\n")
    assert said["error"].isprintable()


def test_what_can_not_be_read_is_said(ours: Settings, tmp_path: Path) -> None:
    signing.load(ours)
    assert "can't be read: Is a directory" in verify(str(tmp_path), ours=ours)["error"]
    assert "can't be read: No such file" in verify(str(tmp_path / "none"), ours=ours)["error"]
    file = written(tmp_path / "r.json", ours)
    assert "is not a git repository" in verify(file, "--repo", str(tmp_path / "none"), ours=ours)["error"]


def test_wrong_usage_is_told_apart(tmp_path: Path) -> None:
    for words in (["verify"], ["verify", "x", "--what"], ["sign", "x"]):
        assert CliRunner().invoke(app, ["receipt", *words]).exit_code == 2


def test_the_schema_is_printed() -> None:
    assert json.loads(coder_bot("receipt", "schema").stdout)["title"] == "coder-bot receipt, version 2"


def test_another_tree_in_the_repository_fails(ours: Settings, repo: Path, tmp_path: Path) -> None:
    first = at_head(tmp_path / "first.json", ours, repo)
    lie = at_head(tmp_path / "lie.json", ours, repo, tree=SHA)
    commit(repo, "two\n")
    head = git(repo, "rev-parse", "HEAD")
    assert verify(first, "--repo", str(repo), ours=ours)["ok"]
    said = verify(lie, "--repo", str(repo), ours=ours)
    assert f"has the tree {git(repo, 'rev-parse', 'HEAD~1^{tree}')}, the receipt is for {SHA}." in said["error"]
    assert (said["verdict"], said["tree"]) == ("Passed", SHA)
    absent = at_head(tmp_path / "absent.json", ours, repo, commit=SHA)
    assert verify(absent, "--repo", str(repo), ours=ours)["note"] == (
        f"{repo} has no such commit, but its HEAD, {head[:12]}, has that tree"
    )
    commit(repo, "three\n")
    said = verify(absent, "--repo", str(repo), ours=ours)
    assert said["error"] == (
        f"{repo} has no commit {SHA}, and its HEAD has not the tree {git(repo, 'rev-parse', 'HEAD~1^{tree}')}."
    )


def test_a_receipt_without_a_commit_needs_a_ref_with_its_tree(ours: Settings, repo: Path, tmp_path: Path) -> None:
    git(repo, "branch", "kept")
    git(repo, "tag", "-a", "-m", "x", "noted")
    git(repo, "tag", "blob", "HEAD:a.txt")
    file = at_head(tmp_path / "r.json", ours, repo, commit=None)
    assert verify(file, "--repo", str(repo), ours=ours)["note"] == f"HEAD in {repo} has that tree"
    commit(repo, "two\n")
    assert verify(file, "--repo", str(repo), ours=ours)["note"] == f"refs/heads/kept in {repo} has that tree"
    git(repo, "branch", "-D", "kept")
    assert verify(file, "--repo", str(repo), ours=ours)["note"] == f"refs/tags/noted in {repo} has that tree"
    git(repo, "tag", "-d", "noted")
    assert "Neither HEAD nor a branch or tag" in verify(file, "--repo", str(repo), ours=ours)["error"]
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    assert "Neither HEAD nor a branch or tag" in verify(file, "--repo", str(empty), ours=ours)["error"]


def test_no_object_that_stands_in_for_another_fools_it(ours: Settings, repo: Path, tmp_path: Path) -> None:
    honest = git(repo, "rev-parse", "HEAD")
    other = commit(repo, "two\n")
    tree = git(repo, "rev-parse", "HEAD^{tree}")
    git(repo, "reset", "-q", "--hard", honest)
    file = at_head(tmp_path / "r.json", ours, repo, tree=tree)
    git(repo, "replace", honest, other)
    assert git(repo, "rev-parse", f"{honest}^{{tree}}") == tree  # what git itself would say
    assert "the receipt is for" in verify(file, "--repo", str(repo), ours=ours)["error"]


def test_an_object_that_is_not_what_its_id_says_is_found_out(ours: Settings, repo: Path, tmp_path: Path) -> None:
    head = git(repo, "rev-parse", "HEAD")
    stored = repo / ".git" / "objects" / head[:2] / head[2:]
    content = zlib.decompress(stored.read_bytes())
    tree = content.partition(b"tree ")[2][:40].decode()
    stored.chmod(0o644)
    stored.write_bytes(zlib.compress(content.replace(tree.encode(), SHA.encode())))
    assert SHA in git(repo, "cat-file", "-p", head)  # git believes the file's name
    file = written(tmp_path / "r.json", ours, tree=SHA, commit=head)
    assert (
        f"The object {head} in {repo} is not what its id says"
        in verify(file, "--repo", str(repo), ours=ours)["error"]
    )


def test_a_tag_or_another_object_is_not_taken_for_the_commit(ours: Settings, repo: Path, tmp_path: Path) -> None:
    git(repo, "tag", "-a", "-m", "x", "noted")
    tag = git(repo, "rev-parse", "noted")
    file = at_head(tmp_path / "r.json", ours, repo, commit=tag)
    assert "has no such commit, but its HEAD" in verify(file, "--repo", str(repo), ours=ours)["note"]


def test_nothing_that_lies_in_the_repository_runs(ours: Settings, repo: Path, tmp_path: Path) -> None:
    file = at_head(tmp_path / "r.json", ours, repo)
    record = planted.plant(repo, tmp_path / "traps")
    assert verify(file, "--repo", str(repo), ours=ours)["ok"]
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "grafts").write_text(f"{git_head(repo)} {SHA}\n")
    assert verify(file, "--repo", str(repo), ours=ours)["ok"]
    assert planted.ran(record) == set()


def git_head(repo: Path) -> str:
    """Without a git that would run what is planted."""
    head = (repo / ".git" / "HEAD").read_text().strip().removeprefix("ref: ")
    return (repo / ".git" / head).read_text().strip()


def test_a_bare_clone_and_a_worktree_are_repositories_as_well(ours: Settings, repo: Path, tmp_path: Path) -> None:
    file = at_head(tmp_path / "r.json", ours, repo)
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    git(repo, "worktree", "add", "-q", str(tmp_path / "tree"))
    shutil.move(repo / "a.txt", repo / "b.txt")  # what is not committed does not count
    for place in (tmp_path / "bare.git", tmp_path / "tree", repo):
        assert verify(file, "--repo", os.fspath(place), ours=ours)["ok"]
