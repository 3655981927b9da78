"""A small repository with a bug, the issue about it, and a script by which the scripted model mends it.

The repository's files are stored with `.txt` at the end of their names, so that nothing takes them for ours: not the
test runner, not the linter, and not git, which would follow their `.gitignore`."""

from __future__ import annotations

from pathlib import Path

ISSUE_TITLE = "show() loses every unit that occurs exactly once"
ISSUE_BODY = """\
`show(3661)` should give `1h 1m 1s`, but it gives `0s`:

```python
>>> from durations import show
>>> show(3661)
'0s'
>>> show(7384)
'2h 3m 4s'
```

There is a test for it, which fails. The tests that pass now should still pass.
"""

_HERE = Path(__file__).parent
_SUFFIX = ".txt"


def files() -> dict[str, bytes]:
    """The repository's files by their paths."""
    top = _HERE / "files"
    found = sorted(path for path in top.rglob(f"*{_SUFFIX}") if path.is_file())
    return {path.relative_to(top).as_posix().removesuffix(_SUFFIX): path.read_bytes() for path in found}


def script() -> Path:
    """What the scripted model says, one reply a line."""
    return _HERE / "script.jsonl"
