"""What a hostile repository leaves in its git directory, so that somebody else's git runs its programs: each of them
writes down its name and its whole environment."""

from __future__ import annotations

from pathlib import Path

TRAP = """\
#!/bin/sh
{{ echo "ran: {name}"; env; }} >>{record}
[ "{name}" = filter ] && exec cat
exit 0
"""
NAMES = ("fsmonitor", "filter", "refs", "ssh", "pager", "editor", "askpass", "proxy", "helper", "pack", "diff")
HOOKS = ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc", "pre-commit", "post-merge")

CONFIG = """\
[core]
\trepositoryformatversion = 1
\tfsmonitor = {traps}/fsmonitor
\talternateRefsCommand = {traps}/refs
\tsshCommand = {traps}/ssh
\tpager = {traps}/pager
\teditor = {traps}/editor
\taskPass = {traps}/askpass
\tgitProxy = {traps}/proxy
\thooksPath = {traps}/hooks
\tattributesFile = {traps}/attributes
[filter "p"]
\tclean = {traps}/filter
\tsmudge = {traps}/filter
\trequired = true
[diff]
\texternal = {traps}/diff
[diff "p"]
\ttextconv = {traps}/diff
[credential]
\thelper = !{traps}/helper
\tuseHttpPath = false
[uploadpack]
\tpackObjectsHook = {traps}/pack
[url "{traps}/elsewhere/"]
\tinsteadOf = http://
\tinsteadOf = https://
\tinsteadOf = file://
[extensions]
\tpartialClone = origin
[remote "origin"]
\turl = {traps}/elsewhere
\tuploadpack = {traps}/pack
\tpromisor = true
\tpartialclonefilter = blob:none
[http]
\textraHeader = X-Planted: yes
[include]
\tpath = {traps}/more
[includeIf "gitdir:/"]
\tpath = {traps}/more
"""
MORE = "[gc]\n\tauto = 1\n[maintenance]\n\tauto = true\n[protocol]\n\tallow = always\n"
ATTRIBUTES = "* filter=p diff=p ident working-tree-encoding=UTF-16 export-subst text eol=crlf\n"


def files(git_dir: str, traps: str, record: str) -> dict[str, tuple[str, bool]]:
    """Each file to be written, by its path: its text, and whether it is a program."""
    found = {f"{traps}/{name}": (TRAP.format(name=name, record=record), True) for name in NAMES}
    for hook in HOOKS:
        program = (TRAP.format(name=f"hook {hook}", record=record), True)
        found |= {f"{git_dir}/hooks/{hook}": program, f"{traps}/hooks/{hook}": program}
    return found | {
        f"{git_dir}/config": (CONFIG.format(traps=traps), False),
        f"{git_dir}/info/attributes": (ATTRIBUTES, False),
        f"{git_dir}/objects/info/alternates": (f"{traps}/elsewhere/objects\n", False),
        f"{traps}/attributes": (ATTRIBUTES, False),
        f"{traps}/more": (MORE, False),
        f"{traps}/elsewhere/objects/info/packs": ("", False),
    }


def plant(repo: Path, traps: Path) -> Path:
    """Does that to a repository here; gives the file that what ran is written to."""
    record = traps / "record"
    for name, (text, is_program) in files(str(repo / ".git"), str(traps), str(record)).items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if is_program else 0o644)
    return record


def ran(record: Path) -> set[str]:
    """The names of what ran."""
    lines = record.read_text().splitlines() if record.exists() else []
    return {line.removeprefix("ran: ") for line in lines if line.startswith("ran: ")}
