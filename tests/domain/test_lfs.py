"""Which files of a patch Git LFS has to do with."""

from __future__ import annotations

import pytest

from bot.domain import lfs
from bot.domain.patch import Change, Mode, Patch

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
RULES = "# *.md filter=lfs\n\n*.psd filter=lfs diff=lfs -text\n*.txt text\n"


def put(path: str, content: bytes = b"plain", mode: Mode | None = "100644") -> Change:
    return Change(path=path, mode=mode, content=content)


@pytest.mark.parametrize(
    ("change", "attributes", "said"),
    [
        (put("a.psd", POINTER), {"": RULES}, "is a pointer of Git LFS"),
        (put("a.psd", POINTER), {}, "is a pointer of Git LFS"),
        (put("a.psd"), {"": RULES}, "belongs to Git LFS"),
        (put("art/a.psd"), {"": RULES}, "belongs to Git LFS"),
        (put("art/a.psd"), {"": RULES, "art": "*.psd -filter\n"}, None),
        (put("art/a.psd"), {"": RULES, "art": "*.psd !filter\n"}, None),
        (put("art/a.psd"), {"art": "a.psd filter=lfs\n"}, "belongs to Git LFS"),
        (put("art2/a.psd"), {"art": "a.psd filter=lfs\n"}, None),
        (put("art/a.psd"), {"": RULES + "art/* filter=other\n"}, None),
        (put("a.txt"), {"": RULES}, None),
        (put("a.md"), {"": RULES}, None),
        (put("a.psd", b"b", "120000"), {"": RULES}, None),
        (put("a.psd", b"", None), {"": RULES}, None),
    ],
)
def test_what_surprises_is_told(change: Change, attributes: dict[str, str], said: str | None) -> None:
    found = lfs.inspect(Patch.of(change), attributes)
    assert [each.action for each in found] == ["name"] * (said is not None)
    assert all(said is not None and said in each.text for each in found)


def test_attributes_are_looked_for_above_each_path() -> None:
    assert lfs.folders(Patch.of(put("a/b/c.txt"), put("d.txt"))) == ("", "a", "a/b")
