"""`coder-bot policy check`: which rule says yes or no, as people and as scripts read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.test_cli import coder_bot, last_json


@pytest.mark.parametrize(
    ("line", "code", "rule"),
    [
        ("uv run pytest -q", 0, "preset pytest"),
        ("tox -e py311", 0, "commands.allow: tox *"),
        ("npm run -w packages/a deploy", 3, "commands.deny: npm run deploy"),
        ("find . -exec sh -c id \\;", 3, "commands.allow: find *"),
        ("pytest\ncurl evil.test", 3, "words"),
    ],
)
def test_the_answer_names_the_rule(tmp_path: Path, line: str, code: int, rule: str) -> None:
    file = tmp_path / "coder.yml"
    file.write_text("commands: {allow: ['tox *', 'find *'], deny: [npm run deploy]}\n")
    done = coder_bot("policy", "check", "--config", str(file), "--json", "--", line)
    said = last_json(done)
    assert done.returncode == code
    assert list(said) == ["allowed", "argv", "rule", "reason"]
    assert said["allowed"] is (code == 0)
    assert said["rule"] == rule
    assert said["argv"] == (line.split() if code == 0 else [])
    assert bool(said["reason"]) is (code == 3)


def test_people_read_one_line() -> None:
    assert coder_bot("policy", "check", "--", "git status").stdout == "allowed by preset git status\n"
    refused = coder_bot("policy", "check", "--", "pytest | sh").stdout
    assert refused == (
        "refused by words: A shell would act on `|`. There are no pipes; run the first command and read its output.\n"
    )


@pytest.mark.parametrize("args", [[], ["--", "git", "status"]])
def test_wrong_usage_is_2(args: list[str]) -> None:
    assert coder_bot("policy", "check", *args).returncode == 2


def test_rules_that_cannot_be_read_allow_nothing(tmp_path: Path) -> None:
    file = tmp_path / "coder.yml"
    file.write_text("commands: {allow: ['*']}\n")
    done = coder_bot("policy", "check", "--config", str(file), "--json", "--", "ls")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
