"""What lies between two commits."""

from __future__ import annotations

from bot.demo.bare import Changed
from bot.demo.calls import READ_CODE, Answer, Call, Operations, Refused
from bot.demo.shapes_base import Object

COMMITS = 250
FILES = 300
"""How many GitHub lists."""


def compare(call: Call) -> Answer:
    repository, bare = call.repository, call.repository.bare
    base_name, dots, head_name = call.variables["basehead"].partition("...")
    base, head = bare.resolve(base_name), bare.resolve(head_name)
    if not dots or base is None or head is None:
        raise Refused(404, "Not Found")
    parted = bare.merge_base(base, head)
    if parted is None:
        raise Refused(404, f"No common ancestor between {base_name} and {head_name}.")
    ahead, behind = bare.commits(base, head), bare.commits(head, base)
    status = {(True, True): "diverged", (True, False): "ahead", (False, True): "behind", (False, False): "identical"}
    name = f"{base_name}...{head_name}"
    page = call.shapes.page(repository, f"/compare/{name}")
    return Answer(
        body={
            "url": call.shapes.url(repository, f"/compare/{name}"),
            "html_url": page,
            "permalink_url": call.shapes.page(repository, f"/compare/{base}...{head}"),
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            "base_commit": call.shapes.commit(repository, bare.commit(base)),
            "merge_base_commit": call.shapes.commit(repository, bare.commit(parted)),
            "status": status[bool(ahead), bool(behind)],
            "ahead_by": len(ahead),
            "behind_by": len(behind),
            "total_commits": len(ahead),
            "commits": [call.shapes.commit(repository, bare.commit(sha)) for sha in ahead[:COMMITS]],
            "files": [_file(call, head, changed) for changed in bare.changed(parted, head)[:FILES]],
        }
    )


def _file(call: Call, head: str, changed: Changed) -> Object:
    """Without the patch, as GitHub leaves it out where it is large."""
    repository, path = call.repository, changed.path
    return {
        "sha": changed.sha,
        "filename": path,
        "status": changed.status,
        "additions": changed.additions,
        "deletions": changed.deletions,
        "changes": changed.additions + changed.deletions,
        "blob_url": call.shapes.page(repository, f"/blob/{head}/{path}"),
        "raw_url": call.shapes.page(repository, f"/raw/{head}/{path}"),
        "contents_url": call.shapes.url(repository, f"/contents/{path}?ref={head}"),
    }


OPERATIONS: Operations = {"repos/compare-commits-with-basehead": (READ_CODE, compare)}
