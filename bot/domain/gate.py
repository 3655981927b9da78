"""The patch gate: what may not be published whatever the checks say, and what people are to be shown first.

Each finding has an action. `refuse`: nothing is published, the model is told once and may mend it. `hold`: the result
waits on the issue for `/coder approve`. `name`: it stands under "Mind these" at the top of the pull request.

| in a patch | action |
|---|---|
| more than `limits.files` or `limits.patch`; a path that is none; what `paths.protected` names | refuse |
| `.git` and the bot's config in every spelling, or something in the place of `.github` | refuse |
| the shape of a secret, or one of the bot's own, in an added line or in a new file's name | refuse |
| an address with a password in it, as often an example as it is real, in an added line | name |
| a binary file: more than 256 KiB | refuse |
| a binary file: smaller | name |
| a link that is absolute, leaves the repository, goes in a circle, or gives a protected path a second name | refuse |
| any other new or changed link, a link that becomes a file | name |
| a path below a link; a path that is both file and folder; two spellings that some system takes for one | refuse |
| `.gitmodules`, a submodule or what is in its place | refuse |
| a new name that is not UTF-8, too long, invisible in part, or not to be had on Windows | refuse |
| what runs by itself: CI files of GitHub (workflows, local actions) and other services, files that editors, agents, \
direnv or git's hooks run | `paths.workflows`: refuse, or hold |
| a file that only changes its mode, or becomes executable; a line with characters that turn text around | name |
| `.gitattributes`, `CODEOWNERS`, Dependabot and Renovate, package managers' config, agents' instructions | name |

Added lines are those that no file the patch touches had before. Base's links are followed as far as their targets are
known (`needed`); what leads through an unknown one is refused."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from bot.domain import invisible, paths
from bot.domain.config import Config
from bot.domain.links import Tree
from bot.domain.patch import Change, Patch
from bot.domain.powers import NAMED, RUNS
from bot.domain.redaction import MASK
from bot.domain.tree import TreeEntry, blob_id

Action = Literal["refuse", "hold", "name"]

Secrets = Callable[[str], Iterable[str]]
"""The kinds of secrets that a text holds."""

ADDRESS = "credentials in an address"
"""The one kind of secret that is as often an example as it is real."""
BINARY_LIMIT = 256 * 1024
LINKS_FOLLOWED = 200
"""Links of the base whose targets are looked at, those nearest to the top folder first."""
FILES_BELOW = 5_000
"""Files that a new link may give a second name."""
SHOWN = 20
"""Findings told at a time."""

_RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?: *\..*)?", re.IGNORECASE)
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*\\]')
# https://trojansource.codes: what is seen is not what is run.
_TURNING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing in a patch. `said` completes a sentence that begins with the path and the line."""

    action: Action
    kind: str
    path: str
    said: str
    line: int | None = None

    @property
    def text(self) -> str:
        """One line of Markdown. What can't be seen in the path is spelled out."""
        where = f" line {self.line}" if self.line is not None else ""
        return f"`{shown(self.path)}`{where} {self.said}"

    def to_dict(self) -> dict[str, str | int | None]:
        return {
            "action": self.action,
            "kind": self.kind,
            "path": shown(self.path),
            "line": self.line,
            "text": self.text,
        }


def shown(path: str) -> str:
    """A path as text of ours: printable, on one line, without marks that would end a code span."""
    visible = "".join(c if c.isprintable() and not invisible.find(c) else ascii(c)[1:-1] for c in path)
    visible = visible.replace("`", "\\x60")
    return visible if len(visible) <= 200 else f"{visible[:200]}…"


def needed(patch: Patch, base: Sequence[TreeEntry]) -> dict[str, str]:
    """The contents of base (by id) that `inspect` looks at, as far as they are worth reading."""
    changed = frozenset(patch.paths)
    before = {entry.sha: entry.sha for entry in base if entry.path in changed and entry.type == "blob"}
    links = sorted((entry for entry in base if entry.mode == "120000"), key=lambda entry: entry.path.count("/"))
    return before | {entry.sha: entry.sha for entry in links[:LINKS_FOLLOWED]}


def inspect(
    patch: Patch, base: Sequence[TreeEntry], before: Mapping[str, str], rules: Config, secrets: Secrets
) -> tuple[Finding, ...]:
    """Everything to be said of a patch, the gravest first. `base` is what it starts from, `before` the text of base's
    contents by their ids (a file that is left out counts as new)."""
    found = [*_whole(patch, rules), *_names(patch, rules)]
    found += _Gate(patch=patch, base=base, before=before, rules=rules).findings()
    found += _lines_added(patch, base, before, secrets)
    unique = dict.fromkeys(found)
    order: tuple[Action, ...] = ("refuse", "hold", "name")
    return tuple(sorted(unique, key=lambda each: (order.index(each.action), each.path, each.line or 0)))


def inspect_names(patch: Patch, rules: Config) -> tuple[Finding, ...]:
    """What can be said of a patch without what it starts from: its size, and what its paths mean."""
    return (*_whole(patch, rules), *_names(patch, rules))


def refused(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(each for each in findings if each.action == "refuse")


def is_held(findings: Iterable[Finding]) -> bool:
    """Whether somebody has to approve it, whatever `pull_request.publish` says."""
    return any(each.action == "hold" for each in findings)


def kinds(redact: Callable[[str], str]) -> Secrets:
    """By what redaction would take out of a text."""
    address = f"://{MASK}@"

    def found(text: str) -> Iterator[str]:
        left = redact(text)
        if left.count(address) > text.count(address):
            yield ADDRESS
        if left.replace(address, "").count(MASK) > text.replace(address, "").count(MASK):
            yield "a token, a key or a password"

    return found


def listed(texts: Sequence[str]) -> str:
    """As a Markdown list, of bounded length."""
    more = [f"and {len(texts) - SHOWN} more"] if len(texts) > SHOWN else []
    return "\n".join(f"- {text}" for text in [*texts[:SHOWN], *more])


def _whole(patch: Patch, rules: Config) -> Iterator[Finding]:
    limits = rules.limits
    if problem := patch.excess(max_files=limits.files, max_bytes=limits.patch):
        yield Finding(action="refuse", kind="size", path="the patch", said=f"is too large or has no place: {problem}")


def _names(patch: Patch, rules: Config) -> Iterator[Finding]:
    for change in patch.changes:
        if finding := _meaning(change.path, rules):
            yield finding


def _meaning(path: str, rules: Config, *, named: bool = True) -> Finding | None:
    """What a path is, whatever lies there."""
    if why := paths.is_protected(path, rules.paths.protected):
        return Finding(action="refuse", kind="protected", path=path, said=f"is protected: {why}")
    if paths.is_submodules_file(path):
        return Finding(action="refuse", kind="submodule", path=path, said="is where git reads submodules from")
    action: Action = "hold" if rules.paths.workflows == "approval" else "refuse"
    for when, runs in RUNS.items():
        if paths.is_named(path, runs):
            said = f"can run commands {when} (`paths.workflows` is `{rules.paths.workflows}`)"
            return Finding(action=action, kind="runs by itself", path=path, said=said)
    for what, globs in NAMED.items() if named else ():
        if paths.is_named(path, globs):
            return Finding(action="name", kind="config", path=path, said=what)
    return None


@dataclass(kw_only=True)
class _Gate:
    """A patch beside the tree it starts from and the one it makes."""

    patch: Patch
    base: Sequence[TreeEntry]
    before: Mapping[str, str]
    rules: Config
    old: Tree = field(init=False)
    new: Tree = field(init=False)

    def __post_init__(self) -> None:
        self.entries = {entry.path: entry for entry in self.base}
        modes = {entry.path: entry.mode for entry in self.base}
        links = {entry.path: self.before.get(entry.sha) for entry in self.base if entry.mode == "120000"}
        self.old = Tree(modes=dict(modes), links=dict(links))
        for change in self.patch.changes:
            modes.pop(change.path, None)
            links.pop(change.path, None)
            if change.mode is not None:
                modes[change.path] = change.mode
            if change.mode == "120000":
                links[change.path] = change.content.decode("utf-8", "surrogateescape")
        self.new = Tree(modes=modes, links=links)
        self.put = [change for change in self.patch.changes if change.mode is not None]
        self.linked = frozenset(change.path for change in self.put if change.mode == "120000")

    def findings(self) -> Iterator[Finding]:
        for change in self.patch.changes:
            yield from self._submodule(change)
        for change in self.put:
            yield from self._content(change)
            if change.path not in self.entries:
                yield from _new_name(change.path)
        yield from self._links()
        yield from self._second_names()
        yield from self._places()

    def _submodule(self, change: Change) -> Iterator[Finding]:
        whole = change.path.split("/")
        for depth in range(1, len(whole) + 1):
            entry = self.entries.get("/".join(whole[:depth]))
            if entry is not None and entry.type == "commit":
                yield _refuse("submodule", change.path, f"is, or is in, the submodule `{shown(entry.path)}`")

    def _content(self, change: Change) -> Iterator[Finding]:
        entry = self.entries.get(change.path)
        if change.mode == "120000":
            return
        if entry is not None and entry.mode == "120000":
            yield _name("link", change.path, "was a link and becomes a file")
        elif entry is not None and entry.sha == blob_id(change.content):
            yield _name("mode", change.path, f"only changes its mode, from {entry.mode} to {change.mode}")
        elif change.mode == "100755" and (entry is None or entry.mode != "100755"):
            yield _name("mode", change.path, "becomes executable")
        if b"\0" in change.content and (entry is None or entry.sha != blob_id(change.content)):
            size = len(change.content)
            if size > BINARY_LIMIT:
                yield _refuse("binary", change.path, f"is binary and has {size:,} bytes, more than {BINARY_LIMIT:,}")
            else:
                yield _name("binary", change.path, f"is binary ({size:,} bytes): a diff can't show what is in it")

    def _links(self) -> Iterator[Finding]:
        globs = self.rules.paths.protected
        for link in self.new.links:
            is_new = link in self.linked
            if not is_new and self.new.end(link) == self.old.end(link):
                continue
            if problem := self.new.problem(link, globs):
                yield _refuse("link", link, f"is a link that {problem}")
            elif is_new:
                yield _name("link", link, f"is a link to `{shown(self.new.links[link] or '')}`")

    def _second_names(self) -> Iterator[Finding]:
        """What a changed file is by the names that links give it, and every file by those of new links."""
        changed = [change.path for change in self.patch.changes]
        for link in self.new.links:
            target, astray = self.new.end(link)
            if astray:
                continue
            below = [
                path
                for path in (self.new.modes if link in self.linked else changed)
                if path == target or path.startswith(f"{target}/")
            ]
            if len(below) > FILES_BELOW:
                yield _refuse("link", link, f"is a link to more than {FILES_BELOW:,} files")
                continue
            for path in below:
                second = link + path[len(target) :]
                if finding := _meaning(second, self.rules, named=False):
                    told = f"is `{shown(second)}` by a link, which {finding.said}"
                    yield Finding(action=finding.action, kind=finding.kind, path=path, said=told)

    def _places(self) -> Iterator[Finding]:
        """Paths in each other's way: for git, or for a system that sees no difference between two spellings."""
        folders = {folder for path in self.new.modes for folder in _above(path)}
        for change in self.put:
            if change.path in folders:
                yield _refuse("place", change.path, "is both a file and a folder")
            for folder in _above(change.path):
                if folder in self.new.modes:
                    kind = "link" if folder in self.new.links else "file"
                    yield _refuse("place", change.path, f"is below the {kind} `{shown(folder)}`")
        had = {*self.old.modes, *(folder for path in self.old.modes for folder in _above(path))}
        new = {
            _alike(path): path
            for change in self.put
            for path in (change.path, *_above(change.path))
            if path not in had
        }
        for path in {*folders, *self.new.modes} if new else ():
            twin = new.get(_alike(path), path)
            if twin != path:
                yield _refuse("place", twin, f"is the same as `{shown(path)}` where case does not count")


def _refuse(kind: str, path: str, said: str) -> Finding:
    return Finding(action="refuse", kind=kind, path=path, said=said)


def _name(kind: str, path: str, said: str) -> Finding:
    return Finding(action="name", kind=kind, path=path, said=said)


def _above(path: str) -> Iterator[str]:
    while (path := path.rpartition("/")[0]) != "":
        yield path


def _alike(path: str) -> str:
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())


def _new_name(path: str) -> Iterator[Finding]:
    if invisible.clean(path) != path or set("\n\t") & set(path):
        yield _refuse("name", path, "has characters in its name that can't be seen or are no UTF-8")
    for name in path.split("/"):
        if len(name.encode("utf-8", "replace")) > 255 or len(path) > paths.LIMIT:
            yield _refuse("name", path, "has a name that is too long")
        elif _NOT_ON_WINDOWS.search(name) or name.endswith((" ", ".")) or _RESERVED.fullmatch(name):
            yield _refuse("name", path, "has a name that Windows can't have")


def _lines_added(
    patch: Patch, base: Sequence[TreeEntry], before: Mapping[str, str], secrets: Secrets
) -> Iterator[Finding]:
    entries = {entry.path: entry for entry in base}
    changed = [entries[change.path] for change in patch.changes if change.path in entries]
    known = frozenset(line for entry in changed for line in _lines(before.get(entry.sha, "")))
    for change in patch.changes:
        entry = entries.get(change.path)
        if entry is None:
            for kind in sorted(secrets(change.path)):
                folder = change.path.rpartition("/")[0]
                path = folder if folder and not set(secrets(folder)) else "a new file"
                yield _refuse("secret", path, f"has a name that holds a secret ({kind})")
        if change.mode is None or (entry is not None and entry.sha == blob_id(change.content)):
            continue
        for first, run in _runs(change.content, known):
            for line, kind in _in_run(run, first, secrets):
                action: Action = "name" if kind == ADDRESS else "refuse"
                said = f"adds what looks like a secret ({kind})"
                yield Finding(action=action, kind="secret", path=change.path, line=line, said=said)
            for line in (first + at for at, text in enumerate(run) if _TURNING.search(text)):
                said = "has characters that turn text around: it may not do what it seems to"
                yield Finding(action="name", kind="turning", path=change.path, line=line, said=said)


def _runs(content: bytes, known: frozenset[str]) -> Iterator[tuple[int, list[str]]]:
    """Added lines that follow each other, and the number of the first."""
    run: list[str] = []
    for number, line in enumerate([*_lines(content.decode("utf-8", "replace")), None], 1):
        if line is not None and line not in known:
            run.append(line)
        elif run:
            yield number - len(run), run
            run = []


def _in_run(run: Sequence[str], first: int, secrets: Secrets) -> Iterator[tuple[int, str]]:
    """Lines that follow each other are looked at as one text: a key has many."""
    all_kinds = set(secrets("\n".join(run)))
    if not all_kinds:
        return
    alone = {at: set(secrets(line)) for at, line in enumerate(run)}
    for at, found in alone.items():
        yield from ((first + at, kind) for kind in sorted(found))
    for kind in sorted(all_kinds - set().union(*alone.values())):
        # The last line from which on it is still seen is where it begins.
        ends = bisect_right(range(len(run)), 0, key=lambda at: kind not in set(secrets("\n".join(run[at:]))))
        yield first + ends - 1, kind


def _lines(text: str) -> list[str]:
    # Without its NULs, UTF-16 reads like what it says.
    return text.replace("\0", "").replace("\r\n", "\n").split("\n")
