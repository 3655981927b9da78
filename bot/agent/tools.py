"""The tools a model may call: each needs its grant, each answers with text, and none of them raises for what a model
or a repository did wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.domain import paths
from bot.domain.commands_policy import Allowed, Policy
from bot.domain.config import Check
from bot.domain.errors import SandboxError, UserError
from bot.domain.transcript import Call, blocked_line
from bot.llm.protocol import ToolCall, ToolSpec
from bot.sandbox.protocol import ExecResult, Sandbox
from bot.sandbox.workspace import REPO

Grant = Literal["read", "write", "exec"]

READ_LIMIT = 256 * 1024
"""Bytes of a file that a model can read or edit; larger ones are for commands."""
RESULT_LIMIT = 24_000
"""Characters of a tool's result that reach the model."""

UNKNOWN = "The sandbox did not say what came of this: it may have happened or not. Look before you do it again."


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ReadFile(_Arguments):
    """Read a text file, or some of its lines. Lines are numbered from 1."""

    path: str = Field(description="Path relative to the repository's top folder.")
    start_line: int | None = Field(default=None, ge=1, description="First line; default: the first one.")
    end_line: int | None = Field(default=None, ge=1, description="Last line, included; default: the last one.")


class ListDir(_Arguments):
    """List a folder."""

    path: str = Field(description="Folder relative to the repository's top folder; `.` is the top folder itself.")


class Search(_Arguments):
    """Search files for a regular expression; answers with path:line:text."""

    pattern: str
    path: str | None = Field(default=None, description="File or folder to search; default: everything.")


class WriteFile(_Arguments):
    """Write a whole file, making it and its folders if they are not there."""

    path: str
    contents: str


class EditFile(_Arguments):
    """Replace the one place in a file that reads exactly `old` by `new`."""

    path: str
    old: str = Field(min_length=1, description="Must occur exactly once, blanks and line ends included.")
    new: str


class RemoveFile(_Arguments):
    """Remove a file."""

    path: str


class RunCommand(_Arguments):
    """Run one allow-listed program with arguments, without a shell, in the repository's top folder."""

    command: str


class RunTests(_Arguments):
    """Run the repository's checks."""

    filter: str | None = Field(default=None, description="Words handed to the first check's test runner.")


class Submit(_Arguments):
    """Say that you are done. The change is then verified in a fresh sandbox."""

    summary: str = Field(description="What was wrong, what you changed, how you know. Markdown, for reviewers.")
    title: str = Field(description="One line, as a pull request's title.")
    replies: dict[str, str] = Field(
        default={},
        description="By a thread's number, what you answer there: what you did for it, or why not. Markdown.",
    )


TOOLS: Mapping[str, tuple[type[_Arguments], Grant | None]] = {
    "read_file": (ReadFile, "read"),
    "list_dir": (ListDir, "read"),
    "search": (Search, "read"),
    "write_file": (WriteFile, "write"),
    "edit_file": (EditFile, "write"),
    "remove_file": (RemoveFile, "write"),
    "run_command": (RunCommand, "exec"),
    "run_tests": (RunTests, "exec"),
    "submit": (Submit, None),
}


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What a call came to. `submitted` ends the episode; so does `denied`, a call without its grant. `refused` is a
    command that the policy said no to."""

    text: str
    exit_code: int | None = None
    refused: bool = False
    denied: bool = False
    submitted: Submit | None = None


def may_change(call: Call) -> bool:
    """Whether files may be different after this finished call."""
    return not call.refused and TOOLS.get(call.name, (None, None))[1] in ("write", "exec")


def submission(name: str, arguments: Mapping[str, Any] | None) -> Submit | None:
    """The submission that a saved call was, if it was a good one."""
    if name != "submit":
        return None
    try:
        return Submit.model_validate(arguments)
    except ValidationError:
        return None


@dataclass(frozen=True, kw_only=True)
class Toolbox:
    """The tools of one episode, over its sandbox. `env` is what commands get beyond the sandbox's own."""

    sandbox: Sandbox
    grants: frozenset[Grant]
    policy: Policy
    protected: Sequence[str]
    checks: Sequence[Check]
    redact: Callable[[str], str]
    command_timeout_s: float
    tests_timeout_s: float
    lifetime_s: int
    env: Mapping[str, str]
    has_threads: bool = False
    """Whether there are threads of a review to be answered."""
    _blocked: set[str] = field(default_factory=set, init=False, repr=False)
    """Hosts that the model has been told it can't reach."""

    def specs(self) -> list[ToolSpec]:
        """The tools that the grants allow."""
        return [
            ToolSpec(name=name, description=arguments.__doc__ or "", parameters=self._schema(arguments))
            for name, (arguments, grant) in TOOLS.items()
            if grant is None or grant in self.grants
        ]

    def _schema(self, arguments: type[_Arguments]) -> dict[str, Any]:
        schema = arguments.model_json_schema()
        if not self.has_threads:
            schema["properties"].pop("replies", None)
        return schema

    async def run(self, call: ToolCall, *, timeout_s: float, repeated: bool = False) -> Observation:
        """Runs one call within `timeout_s`. `repeated` says that it may have run before, when a crash came between
        running and saving it: an edit that is there already is then a success."""
        if call.name not in TOOLS:
            return Observation(text=f"There is no tool {call.name!r}. Tools: {', '.join(TOOLS)}.")
        model, grant = TOOLS[call.name]
        if grant is not None and grant not in self.grants:
            return Observation(text=f"{call.name} needs the grant `{grant}`.", refused=True, denied=True)
        if call.arguments is None:
            return Observation(text="The arguments are not a JSON object.")
        try:
            arguments = model.model_validate(call.arguments)
        except ValidationError as exc:
            return Observation(text=_complaint(call.name, exc))
        try:
            observation = await self._do_behind_links(arguments, timeout_s, repeated)
        except UserError as exc:
            observation = Observation(text=f"Refused: {exc}", refused=True)
        except FileNotFoundError:
            observation = Observation(text="There is no such file.")
        except NotADirectoryError:
            observation = Observation(text="That is not a folder.")
        except IsADirectoryError:
            observation = Observation(text="That is not a regular file.")
        except OSError:
            observation = Observation(text="That file can't be used like that.")
        except ValueError:
            observation = Observation(text="Refused: that path leads out of the repository.", refused=True)
        except SandboxError as exc:
            if exc.reason == "unknown_outcome":
                observation = Observation(text=UNKNOWN)
            else:
                observation = Observation(text=f"Failed: {await limit_met(self.sandbox, exc, self.lifetime_s)}")
        if isinstance(arguments, RunCommand | RunTests):
            observation = self._with_blocked(observation)
        return Observation(
            text=cut(self.redact(observation.text.replace("\0", "\ufffd"))),  # Postgres keeps no NUL
            exit_code=observation.exit_code,
            refused=observation.refused,
            submitted=observation.submitted,
        )

    async def _do_behind_links(self, arguments: _Arguments, timeout_s: float, repeated: bool) -> Observation:
        """The sandbox follows no link. One that stays in the repository is followed here, to a path that is then
        judged like one that the model named."""
        try:
            return await self._do(arguments, timeout_s, repeated)
        except ValueError:
            real = await self._real(getattr(arguments, "path", ""))
            return await self._do(arguments.model_copy(update={"path": real}), timeout_s, repeated)

    async def _real(self, path: str) -> str:
        """Where a path leads, relative to the repository; ValueError where that is outside."""
        asked = ["readlink", "-f", self._path(path)]
        found = await self.sandbox.exec(asked, timeout_s=self.command_timeout_s)
        real = found.stdout.decode("utf-8", "replace").removesuffix("\n")
        if found.exit_code == 1:
            raise FileNotFoundError(path)
        if not found.ok or not real.startswith(f"{REPO}/"):
            raise ValueError("it leads out of the repository")
        return real.removeprefix(f"{REPO}/")

    async def _do(self, arguments: _Arguments, timeout_s: float, repeated: bool) -> Observation:
        match arguments:
            case ReadFile(path=path, start_line=start, end_line=end):
                return Observation(text=_lines(await self._text(path), start, end))
            case ListDir(path=path):
                entries = await self.sandbox.list(self._path(path) if path not in (".", "", "./") else REPO)
                marks = {"dir": "/", "link": "@", "other": "?", "file": ""}
                names = [entry.name + marks[entry.kind] for entry in entries if entry.name != ".git"]
                return Observation(text="\n".join(names) or "(empty)")
            case Search(pattern=pattern, path=path):
                return await self._search(pattern, path, timeout_s)
            case WriteFile(path=path, contents=contents):
                return await self._write(path, contents, f"Wrote {path}.")
            case EditFile(path=path, old=old, new=new):
                return await self._edit(path, old, new, repeated)
            case RemoveFile(path=path):
                self._may_write(path)
                try:
                    await self.sandbox.remove(self._path(path))
                except FileNotFoundError:
                    if not repeated:
                        raise
                return Observation(text=f"Removed {path}.")
            case RunCommand(command=command):
                decision = self.policy.decide(command)
                if not isinstance(decision, Allowed):
                    hint = f" {decision.hint}" if decision.hint else ""
                    return Observation(text=f"Refused: {decision.reason}{hint}", refused=True)
                limit = min(timeout_s, self.command_timeout_s)
                result = await self.sandbox.exec(decision.argv, cwd=REPO, env=self.env, timeout_s=limit)
                return _observed(result, limit)
            case RunTests(filter=words):
                return await self._run_tests(words, timeout_s)
            case Submit():
                return Observation(text="Submitted.", submitted=arguments)
            case _:
                raise AssertionError(arguments)

    def _with_blocked(self, observation: Observation) -> Observation:
        """With a first line that names the hosts which were refused since the model was last told."""
        new = [host for host in self.sandbox.refused_hosts if host not in self._blocked]
        self._blocked.update(new)
        return replace(observation, text=f"{blocked_line(new)}\n{observation.text}") if new else observation

    def _path(self, path: str) -> str:
        return f"{REPO}/{paths.resolve(path)}"

    def _may_write(self, path: str) -> None:
        reason = paths.is_protected(paths.resolve(path), self.protected)
        if reason is not None:
            raise UserError(f"{path} is protected: {reason}")

    async def _text(self, path: str) -> str:
        content = await self.sandbox.read(self._path(path), max_bytes=READ_LIMIT)
        if b"\0" in content:
            raise UserError(f"{path} is a binary file.")
        return content.decode("utf-8", "surrogateescape")

    async def _write(self, path: str, text: str, said: str) -> Observation:
        self._may_write(path)
        await self.sandbox.write(
            self._path(path), text.encode("utf-8", "surrogateescape"), mode=await self._mode(path)
        )
        return Observation(text=said)

    async def _mode(self, path: str) -> int:
        """An executable file stays one."""
        test = await self.sandbox.exec(["test", "-x", self._path(path)], timeout_s=self.command_timeout_s)
        return 0o755 if test.ok else 0o644

    async def _edit(self, path: str, old: str, new: str, repeated: bool) -> Observation:
        text = await self._text(path)
        match text.count(old):
            case 1:
                return await self._write(path, text.replace(old, new), f"Edited {path}.")
            case 0 if repeated and new in text:
                return Observation(text=f"Edited {path}.")
            case 0:
                return Observation(text=f"`old` does not occur in {path}; read the file again and copy it exactly.")
            case times:
                return Observation(
                    text=f"`old` occurs {times} times in {path}; add lines around it until it is unique."
                )

    async def _search(self, pattern: str, path: str | None, timeout_s: float) -> Observation:
        # A search would follow a link that it is given by name.
        where = await self._real(path) if path not in (None, ".", "", "./") and path else "."
        argv = [
            "rg",
            "--line-number",
            "--no-heading",
            "--color=never",
            "--max-columns=300",
            "-e",
            pattern,
            "--",
            where,
        ]
        result = await self.sandbox.exec(argv, cwd=REPO, timeout_s=min(timeout_s, self.command_timeout_s))
        if result.exit_code == 127:
            argv = ["grep", "-rnIE", "--exclude-dir=.git", "-e", pattern, "--", where]
            result = await self.sandbox.exec(argv, cwd=REPO, timeout_s=min(timeout_s, self.command_timeout_s))
        if result.exit_code == 1 and not result.stdout:
            return Observation(text="Nothing matches.", exit_code=1)
        return Observation(text=_output(result), exit_code=result.exit_code)

    async def _run_tests(self, words: str | None, timeout_s: float) -> Observation:
        if not self.checks:
            return Observation(text="This repository has no checks.")
        extra: tuple[str, ...] = ()
        if words:
            decision = self.policy.words(words)
            if not isinstance(decision, tuple):
                return Observation(text=f"Refused: {decision.reason}", refused=True)
            if any(word.startswith("-") for word in decision):
                return Observation(text="Refused: `filter` takes names, no options.", refused=True)
            extra = decision
        report, worst = [], 0
        for check in self.checks[:1] if extra else self.checks:
            limit = min(timeout_s, self.tests_timeout_s, check.timeout)
            result = await run_line(self.sandbox, check.run, extra=extra, env=self.env, timeout_s=limit)
            observed = _observed(result, limit)
            worst = worst or observed.exit_code or 0
            report.append(f"## {check.name}: {check.run}\n{observed.text}")
        return Observation(text="\n\n".join(report), exit_code=worst)


async def run_line(
    sandbox: Sandbox,
    line: str,
    *,
    extra: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    timeout_s: float,
    trusted_status: bool = False,
) -> ExecResult:
    """Runs an administrator's shell line in the repository: bash that stops at the first failure, also inside a pipe,
    or plain sh where there is no bash. `extra` words are appended as they are."""
    shell = f'{line} "$@"' if extra else line
    strict = (
        "if command -v bash >/dev/null 2>&1;"
        ' then exec bash -eo pipefail -c "$0" "$0" "$@"; else exec sh -e -c "$0" "$0" "$@"; fi'
    )
    return await sandbox.exec(
        ["sh", "-c", strict, shell, *extra], cwd=REPO, env=env, timeout_s=timeout_s, trusted_status=trusted_status
    )


async def limit_met(sandbox: Sandbox, error: SandboxError, lifetime_s: int) -> str:
    """What to say of a limit that a running sandbox has: a file too large, a full disk. Any other error is raised; so
    is, retryably, that the sandbox stands still: connecting to it again resumes it, or tells that it is gone."""
    if error.reason != "limit_exceeded":
        raise error
    try:
        await sandbox.extend(lifetime_s)
    except SandboxError as exc:
        if exc.reason != "limit_exceeded":
            raise
        raise SandboxError("unreachable", str(exc), retryable=True) from exc
    return str(error)


def cut(text: str, limit: int = RESULT_LIMIT) -> str:
    """The head and the tail of a text that is too long, and how much was left out between them."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"


def _observed(result: ExecResult, limit_s: float) -> Observation:
    if result.timed_out:
        return Observation(text=f"Ended after {limit_s:.0f} seconds, its time-out.\n{_output(result)}", exit_code=124)
    return Observation(text=f"exit code {result.exit_code}\n{_output(result)}", exit_code=result.exit_code)


def _output(result: ExecResult) -> str:
    out, err = (stream.decode("utf-8", "replace") for stream in (result.stdout, result.stderr))
    return f"{out}\n[stderr]\n{err}" if err.strip() and out.strip() else out or err


def _lines(text: str, start: int | None, end: int | None) -> str:
    if start is None and end is None:
        return text or "(empty)"
    lines = text.splitlines()
    first, last = start or 1, min(end or len(lines), len(lines))
    if first > len(lines):
        return f"The file has {len(lines)} lines."
    return "\n".join(f"{number}\t{lines[number - 1]}" for number in range(first, last + 1))


def _complaint(name: str, error: ValidationError) -> str:
    problems = "; ".join(
        f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}" for item in error.errors()
    )
    return f"{name} can't be called like that: {problems}."
