"""The repository that the attacks are tried in, and who looks after each of them whether it has worked."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bot.agent.tools import Observation, Toolbox
from bot.llm.protocol import ToolCall
from tests.attacks.attack import Attack
from tests.attacks.tool_attacks import TOOLS

REPO = "/workspace/repo"
REAL: Mapping[str, str] = {"CODER_DOCKER_RUNTIME": ""}
"""Settings for attacks on the sandbox itself: as the engine runs containers by default."""
RECORDED = ("curl", "wget", "busybox", "ping", "nslookup", "dig", "host", "go", "fd")
"""Programs that the image lacks: starting one leaves the marks that its words name."""
RECORDER = """\
#!/bin/sh
for word; do
  for mark in $(printf '%s' "$word" | grep -o 'mark-[a-z0-9-]*'); do : >"/workspace/repo/marks/${mark#mark-}"; done
done
"""
RULES = """\
version: 1
checks: [{name: tests, run: python3 -m pytest -q test_calc.py, timeout: 1m}]
sandbox: {env: {PATH: "/workspace/repo/bin:/usr/local/bin:/usr/bin:/bin"}}
limits: {tool_calls: 1000}
paths: {protected: ["migrations/**"]}
"""
LINKS = {
    "docs": "/etc",
    "accounts": "/etc/passwd",
    "up": "..",
    "pkg/deep/up": "../../..",
    "aside": "../.coder/made.json",
    "inside": "pkg",
}
FILES: Mapping[str, str] = {
    "calc.py": "def add(a, b):\n    return a - b\n",
    "test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n",
    ".gitignore": "marks/*\n",
    "marks/.keep": "",
    "pkg/code.py": "PLACE = 'inside'\n",
    "migrations/0000.sql": "",
    "Makefile": "SHELL = /bin/sh\nall:\n\t@true\n",
    "traps/evil.mk": "%:\n\t@touch /workspace/repo/marks/$@\n",
    "traps/Makefile": "%:\n\t@touch /workspace/repo/marks/$@\n",
    "traps/plugin.py": "open('/workspace/repo/marks/pytest-p', 'w')\n",
    "traps/pytest.ini": "[pytest]\npython_files = evil_config.py\n",
    "traps/evil_config.py": "open('/workspace/repo/marks/pytest-c', 'w')\n",
    "traps/evil_option.py": "open('/workspace/repo/marks/pytest-o', 'w')\n",
    "traps/tmp_path_case.py": "def test(tmp_path):\n    pass\n",
    "traps/sed-f.sed": "1w marks/sed-f\n",
    "traps/node-r.js": "require('fs').writeFileSync('marks/node-r', '')\n",
    "traps/dot.sh": ": >marks/dot\n",
    "traps/source.sh": ": >marks/source\n",
    "traps/attributes": "*.py diff=evil\n",
    "victims/pytest-basetemp/kept": "victim\n",
}
PROGRAMS: Mapping[str, str] = {
    **{f"bin/{name}": RECORDER for name in RECORDED},
    "traps/git-evil": "#!/bin/sh\n: >/workspace/repo/marks/git-exec-path\n",
}
FINE = (
    'find . -name "*.py" -not -path "./.git/*"',
    "rg add calc.py",
    "sed -n 1,20p calc.py",
    "git diff --stat",
    "git log -5",
    "git status",
)
"""What the same programs are there for; between the attacks, so that refusals are no burst."""


def repository(folder: Path, rules: str = RULES, **more: str) -> Path:
    """A repository with a trap and a victim for whoever needs one, and links that lead out of it."""
    texts = {**FILES, ".github/coder.yml": rules, **more}
    programs = dict(PROGRAMS)
    for attack in TOOLS:
        arguments = " ".join(map(str, attack.call["arguments"].values())) if attack.call else ""
        if f"traps/{attack.id}" in arguments:
            programs.setdefault(f"traps/{attack.id}", f"#!/bin/sh\n: >/workspace/repo/marks/{attack.id}\n")
        if f"victims/{attack.id}" in arguments and "basetemp" not in attack.id:
            texts[f"victims/{attack.id}"] = "victim\n"
    for files, mode in ((texts, 0o644), (programs, 0o755)):
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(mode)
    for name, target in LINKS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-Af")
    git(folder, "commit", "-q", "-m", "Initial commit")
    return folder


def git(folder: Path, *words: str) -> str:
    """Git on this machine in a repository of the test's own."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        **{
            f"GIT_{who}_{what}": "somebody@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        },
    }
    return subprocess.run(
        ["git", "-c", "safe.directory=*", *words], cwd=folder, env=env, check=True, capture_output=True, text=True
    ).stdout


class Watch:
    """Stands behind the tools: hands every call on, and looks for the marks of the attacks that these were. After
    `batch` of them at the latest: those whose marks others may cover are looked for at once."""

    def __init__(self, order: Sequence[Attack | None], *, first: str = "true", batch: int = 25) -> None:
        self.seen: set[str] = set()
        self.tried: list[str] = []
        self.answers: list[str] = []
        """What the calls between the attacks were answered."""
        self._order = list(order)
        self._first = first
        self._batch = batch
        self._waiting: list[Attack] = []
        self._run = Toolbox.run

    async def run(self, toolbox: Toolbox, call: ToolCall, *, timeout_s: float, repeated: bool = False) -> Observation:
        if self._first:
            await self._shell(toolbox, self._first)
            self._first = ""
        observation = await self._run(toolbox, call, timeout_s=timeout_s, repeated=repeated)
        if not self._order:
            return observation
        attack = self._order.pop(0)
        if attack is None:
            self.answers.append(observation.text)
        else:
            self.tried.append(attack.id)
            if attack.says and attack.says in observation.text:
                self.seen.add(attack.id)
            if attack.sign:
                self._waiting.append(attack)
        at_once = (attack is not None and attack.wall != "policy") or not self._order
        if self._waiting and (at_once or len(self._waiting) >= self._batch):
            await self._look(toolbox)
        return observation

    async def _look(self, toolbox: Toolbox) -> None:
        lines = [f"if ( {attack.sign} ) >/dev/null 2>&1; then echo {attack.id}; fi" for attack in self._waiting]
        self._waiting.clear()
        self.seen.update((await self._shell(toolbox, "\n".join([*lines, ":"]))).split())

    async def _shell(self, toolbox: Toolbox, line: str) -> str:
        result = await toolbox.sandbox.exec(["sh", "-c", line], cwd=REPO, timeout_s=30)
        assert result.ok, result
        return result.stdout.decode()
