"""What leaves a real sandbox as the patch: base's ignore rules decide, whatever the work tree says."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.agent.tools import Toolbox
from bot.domain.commands_policy import Policy
from bot.domain.errors import SandboxError
from bot.domain.patch import Patch
from bot.domain.transcript import blocked_line
from bot.llm.protocol import ToolCall
from bot.sandbox import workspace
from bot.sandbox.docker import DockerProvider
from bot.sandbox.protocol import Sandbox, SandboxSpec
from bot.sandbox.workspace import REPO, Bundle, PatchRefused

BASE: Mapping[str, bytes] = {
    ".gitignore": b"*.log\n/dist/\nvendor/*\n!vendor/keep/\n",
    "a.txt": b"a\n",
    "run.sh": b"#!/bin/sh\n",
    "dist/tracked.js": b"1\n",
    "sub/.gitignore": b"!wanted.log\nbuild/\n",
    "sub/b.txt": b"b\n",
}


@pytest.fixture
def home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="coder-"))
    yield path
    shutil.rmtree(path)


def base_bundle(home: Path, files: Mapping[str, bytes]) -> tuple[bytes, str]:
    repo = home / "repo"
    for name, content in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_bytes(content)
    if "run.sh" in files:
        os.chmod(repo / "run.sh", 0o755)
    who = ["-c", "user.name=a", "-c", "user.email=a@b.test"]
    subprocess.run(["git", "init", "-q"], cwd=repo, check=True)
    (repo / ".git" / "info" / "attributes").write_text("* -text -filter -ident -working-tree-encoding\n")
    for words in (["add", "-Af"], [*who, "commit", "-qm", "base"]):
        subprocess.run(["git", *words], cwd=repo, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, check=True, stdout=subprocess.PIPE)
    subprocess.run(["git", "bundle", "create", "-q", str(home / "bundle"), "HEAD"], cwd=repo, check=True)
    return (home / "bundle").read_bytes(), head.stdout.decode().strip()


@asynccontextmanager
async def cloned(
    home: Path, *, made: str = "true", files: Mapping[str, bytes] = BASE
) -> AsyncIterator[tuple[Sandbox, str]]:
    """A sandbox with these files checked out, in which `made` has run as set-up; and the commit."""
    bundle, commit = base_bundle(home, files)
    provider = DockerProvider(
        deployment=f"test-{secrets.token_hex(6)}", egress_dir=home / "egress", private_hosts=frozenset()
    )
    name = f"collect-{secrets.token_hex(6)}"
    spec = SandboxSpec(name=name, kind="work", task="t", image="coder-bot-sandbox:latest", lifetime_s=600)
    sandbox = await provider.create(spec)
    try:
        await workspace.clone(sandbox, Bundle(data=bundle), commit, timeout_s=60)
        await workspace.check_out(sandbox, commit)
        await sh(sandbox, made)
        await workspace.note_made(sandbox, commit)
        yield sandbox, commit
    finally:
        await sandbox.aclose()
        await provider.kill(sandbox.id)
        await provider.aclose()


async def sh(sandbox: Sandbox, line: str) -> None:
    result = await sandbox.exec(["sh", "-ec", line], cwd=REPO, timeout_s=60)
    assert result.ok, result.stderr


async def collected(sandbox: Sandbox, base: str, *, max_files: int = 50, max_bytes: int = 100_000) -> Patch:
    return await workspace.collect(sandbox, base, max_files=max_files, max_bytes=max_bytes)


async def test_an_untouched_tree_is_no_change_and_touching_it_makes_none(home: Path) -> None:
    async with cloned(home) as (sandbox, base):
        await sh(sandbox, "touch a.txt sub/b.txt; cp -p a.txt x; mv x a.txt")
        assert not await collected(sandbox, base)


async def test_what_attributes_would_change_on_the_way_is_worked_on_as_it_will_be_published(home: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 12\n" % (b"0" * 64)
    attributes = (
        b"*.bat text eol=crlf\n*.enc text working-tree-encoding=UTF-16\n*.id ident\n*.bin filter=lfs diff=lfs -text\n"
    )
    files = {".gitattributes": attributes, "a.bat": b"x\ny\n", "b.enc": b"x\n", "c.id": b"$Id$\n", "d.bin": pointer}
    async with cloned(home, files=files) as (sandbox, base):
        for name, content in files.items():
            assert await sandbox.read(f"{REPO}/{name}", max_bytes=1000) == content
        assert not await collected(sandbox, base)
        await sh(sandbox, "printf 'x\\r\\n' >a.bat; echo more >>d.bin")
        patch = await collected(sandbox, base)
        assert [(change.path, change.content) for change in patch.changes] == [
            ("a.bat", b"x\r\n"),
            ("d.bin", pointer + b"more\n"),
        ]


async def test_each_kind_of_change_is_told_as_bytes_and_mode(home: Path) -> None:
    async with cloned(home) as (sandbox, base):
        await sh(
            sandbox,
            "printf 'A\\377' > a.txt; chmod -x run.sh; rm sub/b.txt; ln -s a.txt link; mkfifo pipe;"
            " mkdir -p 'new dir/deep'; echo n > 'new dir/deep/:(top)n'; echo 2 > dist/tracked.js",
        )
        patch = await collected(sandbox, base)
        assert [(change.path, change.mode, change.content) for change in patch.changes] == [
            ("a.txt", "100644", b"A\xff"),
            ("dist/tracked.js", "100644", b"2\n"),
            ("link", "120000", b"a.txt"),
            ("new dir/deep/:(top)n", "100644", b"n\n"),
            ("run.sh", "100644", b"#!/bin/sh\n"),
            ("sub/b.txt", None, b""),
        ]


async def test_what_base_ignores_stays_out_and_what_a_nested_file_of_base_wants_comes_in(home: Path) -> None:
    async with cloned(home) as (sandbox, base):
        await sh(
            sandbox,
            "mkdir -p node_modules/p/lib dist/x vendor/other vendor/keep sub/build/in deep/sub/build __pycache__;"
            "for f in node_modules/p/lib/a.js dist/new.js dist/x/y.js top.log vendor/other/f vendor/keep/f"
            " sub/build/in/f sub/wanted.log sub/other.log deep/sub/build/f __pycache__/a.pyc; do echo x > $f; done",
        )
        assert (await collected(sandbox, base)).paths == ("deep/sub/build/f", "sub/wanted.log", "vendor/keep/f")


async def test_a_changed_ignore_file_hides_nothing_and_uncovers_nothing(home: Path) -> None:
    async with cloned(home) as (sandbox, base):
        await sh(
            sandbox,
            "echo '*' > .gitignore; echo '!build/' > sub/.gitignore; mkdir -p sub/build new .git/info;"
            " echo '*' > new/.gitignore; echo '*' > .git/info/exclude;"
            " echo x > hidden.txt; echo x > sub/build/f; echo x > new/f",
        )
        paths = (await collected(sandbox, base)).paths
        assert paths == (".gitignore", "hidden.txt", "new/.gitignore", "new/f", "sub/.gitignore")


async def test_what_set_up_made_stays_out_and_what_was_made_beside_it_later_comes_in(home: Path) -> None:
    async with cloned(home, made="mkdir made; echo 1 > made/f; echo 1 > lock") as (sandbox, base):
        await sh(sandbox, "echo 2 > made/f; echo 2 > made/g; echo 2 > lock; echo 2 > a.txt")
        assert (await collected(sandbox, base)).paths == ("a.txt", "made/g")


async def test_a_change_that_is_too_large_is_told_with_its_figures(home: Path) -> None:
    async with cloned(home) as (sandbox, base):
        await sh(sandbox, "mkdir out; for i in 1 2 3 4 5; do echo x > out/$i; done; rm a.txt")
        with pytest.raises(PatchRefused, match="6 files, 10 bytes"):
            await collected(sandbox, base, max_files=5)
        await sh(sandbox, "rm -r out; head -c 200000 /dev/zero > big.bin")
        with pytest.raises(PatchRefused, match=r"2 files, 200,000 bytes, the largest big\.bin with 200,000"):
            await collected(sandbox, base)


async def test_a_tree_that_can_not_be_read_is_refused_by_name(home: Path) -> None:
    async with cloned(home) as (sandbox, base):
        await sh(sandbox, "chmod 0 sub")
        with pytest.raises(PatchRefused, match="sub can't be read"):
            await collected(sandbox, base)
        await sh(sandbox, "chmod 755 sub; chmod 0 a.txt")
        with pytest.raises(PatchRefused, match=r"a\.txt can't be read"):
            await collected(sandbox, base)
        await sh(sandbox, "chmod 644 a.txt; printf x > \"$(printf 'n\\377')\"")
        with pytest.raises(PatchRefused, match="not UTF-8"):
            await collected(sandbox, base)


def toolbox_of(sandbox: Sandbox) -> Toolbox:
    return Toolbox(
        sandbox=sandbox,
        grants=frozenset({"exec", "read"}),
        policy=Policy.of(allow=["python3 ask.py"], deny=[]),
        protected=[],
        checks=[],
        redact=str,
        command_timeout_s=30,
        tests_timeout_s=30,
        lifetime_s=600,
        env=sandbox.proxy_env,
    )


async def test_a_host_that_is_refused_is_named_to_the_model_once(home: Path) -> None:
    async with cloned(home) as (sandbox, _):
        await sandbox.allow(frozenset({"allowed.test"}))
        toolbox = toolbox_of(sandbox)
        await sandbox.write(f"{REPO}/ask.py", b"import urllib.request as u\nu.urlopen('http://other.test/')\n")
        ask = ToolCall(id="1", name="run_command", arguments={"command": "python3 ask.py"})
        first, second = [(await toolbox.run(ask, timeout_s=30)).text for _ in range(2)]
        assert first.startswith(f"{blocked_line(['other.test:80'])}\nexit code ")
        assert second.startswith("exit code ")


async def test_a_file_too_large_to_read_is_told_to_the_model_and_a_sandbox_that_stands_still_is_raised(
    home: Path,
) -> None:
    async with cloned(home) as (sandbox, _):
        await sh(sandbox, "head -c 400000 /dev/zero > big")
        toolbox = toolbox_of(sandbox)
        read = ToolCall(id="1", name="read_file", arguments={"path": "big"})
        assert "is larger than" in (await toolbox.run(read, timeout_s=30)).text
        await sandbox.pause()
        with pytest.raises(SandboxError) as caught:
            await toolbox.run(read, timeout_s=30)
        assert (caught.value.reason, caught.value.retryable) == ("unreachable", True)


async def test_what_was_collected_is_brought_back_into_a_fresh_work_tree(home: Path) -> None:
    change = (
        "rm -r sub && ln -s a.txt sub && rm run.sh && mkdir run.sh && printf x >run.sh/inner"
        " && printf '\\0\\377' >new"
        " && mkdir -p deep/er && ln -s nowhere deep/er/link && chmod +x a.txt && rm -r dist && printf f >dist"
    )
    async with cloned(home) as (sandbox, commit):
        await sh(sandbox, change)
        patch = await workspace.collect(sandbox, commit, max_files=100, max_bytes=10_000)
    assert {one.path for one in patch.changes} >= {"sub", "run.sh/inner", "new", "deep/er/link", "a.txt", "dist"}
    again = home / "again"
    again.mkdir()
    async with cloned(again, made="printf of-set-up >new") as (sandbox, commit):
        await workspace.apply(sandbox, patch)
        await sandbox.write(f"{workspace.SCRATCH}/made.json", b"[]")
        assert await workspace.collect(sandbox, commit, max_files=100, max_bytes=10_000) == patch
        await workspace.apply(sandbox, patch)  # twice is once
        assert await workspace.collect(sandbox, commit, max_files=100, max_bytes=10_000) == patch
