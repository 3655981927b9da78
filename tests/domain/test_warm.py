"""What a prepared file system depends on, and what it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.domain.tree import TreeEntry
from bot.domain.warm import Inputs, key, root_manifests, root_names

INPUTS = Inputs(
    installation_id=1,
    repository_id=2,
    image_id="sha256:1",
    config_text="setup: [npm ci]",
    setup=("npm ci", "cd tools && ./build.sh --out=gen/x.json"),
    env={"A": "1", "B": "2"},
)


def blob(path: str, sha: str = "1", mode: str = "100644") -> TreeEntry:
    return TreeEntry(mode=mode, type="blob", sha=sha * 40, path=path)


TREE = (
    blob("Makefile"),
    blob("README.md"),
    blob("package.json"),
    blob("packages/api/package-lock.json"),
    blob("src/a.js"),
    blob("tools/build.sh"),
    blob("\udce9"),
)


def test_the_key_is_a_digest_that_no_order_changes() -> None:
    same = replace(INPUTS, env={"B": "2", "A": "1"})
    assert key(INPUTS, TREE) == key(same, tuple(reversed(TREE)))
    assert len(key(INPUTS, ())) == 64


@pytest.mark.parametrize(
    "inputs",
    [
        replace(INPUTS, installation_id=2),
        replace(INPUTS, repository_id=3),
        replace(INPUTS, image_id="sha256:2"),
        replace(INPUTS, config_text=None),
        replace(INPUTS, config_text=""),
        replace(INPUTS, setup=("npm ci",)),
        replace(INPUTS, setup=("npm", "ci", *INPUTS.setup[1:])),
        replace(INPUTS, env={"A": "1"}),
        replace(INPUTS, env={"A": "1", "B": "3"}),
    ],
)
def test_everything_that_set_up_starts_from_makes_another_key(inputs: Inputs) -> None:
    assert key(inputs, TREE) != key(INPUTS, TREE)


@pytest.mark.parametrize("path", ["Makefile", "package.json", "packages/api/package-lock.json", "tools/build.sh"])
def test_a_file_that_set_up_reads_makes_another_key(path: str) -> None:
    others = tuple(entry for entry in TREE if entry.path != path)
    keys = {
        key(INPUTS, tree) for tree in (TREE, others, (*others, blob(path, "2")), (*others, blob(path, mode="100755")))
    }
    assert len(keys) == 4


def test_any_other_file_does_not() -> None:
    changed = tuple(blob(entry.path, "2") if entry.path in ("README.md", "src/a.js") else entry for entry in TREE)
    assert key(INPUTS, (*changed, blob("build.sh.bak"), blob("docs/Makefile"))) == key(INPUTS, TREE)
    assert key(replace(INPUTS, setup=("./",)), changed) == key(replace(INPUTS, setup=("./",)), TREE)


def test_the_root_folder_is_read_from_a_listing() -> None:
    link = blob("tox.ini", mode="120000")
    tree = (*TREE, link, blob("lib/setup.py"), TreeEntry(mode="160000", type="commit", sha="3" * 40, path="sub"))
    assert root_names(tree) == (
        "Makefile",
        "README.md",
        "lib",
        "package.json",
        "packages",
        "src",
        "sub",
        "tools",
        "tox.ini",
        "\udce9",
    )
    assert root_manifests(tree) == {"Makefile": "1" * 40, "package.json": "1" * 40}
