"""The programs a model may run without a word from the repository, and what each of them may be told.

To add a program, add a line to the table of its kind: how the command begins, its options, and what else it takes.

Options are written as one string:
    -q  --quiet       a flag
    -n=  --lines=     takes a value, glued or as the next word; as a path it must stay in the repository
    -e=*  --regexp=*  takes a value that is no path: a pattern, a name
    --tb=short|long   takes a value that matches this regular expression
    -L=path:\\d+:.+   takes a value that matches, and that must stay in the repository
    --color=?         may have a value, which is then glued to it
    -#                a number, as in `head -20`
An option that isn't there is refused. So nothing is listed that starts a program, writes a file of the caller's
choice, loads code or configuration, follows links out of the repository, waits for input, or reaches out; and an
option is written here as the program's own documentation writes it, never shortened.
"""

from __future__ import annotations

from bot.domain.presets import build, git, node, python, reading
from bot.domain.presets.preset import Preset

PRESETS: tuple[Preset, ...] = (*python.PRESETS, *node.PRESETS, *build.PRESETS, *git.PRESETS, *reading.PRESETS)
