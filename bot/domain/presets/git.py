"""Git's sub-commands that only read."""

from __future__ import annotations

from bot.domain.presets.preset import Preset, names, nothing, pattern, presets

_GIT = ("git", "git --no-pager")
_DIFF = (
    "-p -u --patch -s --no-patch --stat=? --numstat --shortstat --dirstat --summary --name-only --name-status --raw "
    "--cached --staged --merge-base -w -b --ignore-all-space --ignore-space-change --ignore-space-at-eol "
    "--ignore-blank-lines --no-color --color=? --word-diff=? -M=? -C=? -R --diff-filter=* -S=* -G=* "
    "--pickaxe-regex -U=* --unified=* --no-ext-diff --no-textconv --exit-code --quiet --check --minimal --patience "
    "--histogram --find-renames=? --no-renames --relative=? -z -W --function-context --no-prefix --text -a"
)
# `%G…` runs the program that git's config names for signatures; whatever git does not know before it, it skips.
_FORMAT = r"(?!.*%[-+\x20]*+G).*"
_LOG = (
    f"{_DIFF} -# -n=* --max-count=* --skip=* --oneline --graph --all --branches --tags --remotes --no-decorate "
    "--decorate=? --author=* --grep=* --since=* --until=* --after=* --before=* --follow --merges --no-merges "
    "--first-parent --reverse --abbrev-commit --no-abbrev-commit --date=* -i -E -F --full-history --left-right "
    r"-L=path:(?:\d++,[-+]?\d++|:[^:/]++):[^:]++ "
    f"--cherry-pick --no-notes --format={_FORMAT} --pretty={_FORMAT}"
)
_REVISION = r"[\w.@^~][\w./@^~{}-]*"

PRESETS: tuple[Preset, ...] = (
    *presets(
        None,
        "status",
        "-s -b -v -z -u=? --short --branch --long --porcelain=? --untracked-files=? --ignored=? --no-renames",
        via=_GIT,
    ),
    *presets(None, "diff", _DIFF, via=_GIT),
    *presets(None, "log, show", _LOG, via=_GIT),
    *presets(
        None,
        "blame",
        "-L=* -w -s -e -M=? -C=? -l -f -n -p --date=* --porcelain --line-porcelain",
        via=_GIT,
    ),
    *presets(
        None,
        "ls-files",
        "-c -d -m -o -s -u -z -t -i -x=* --cached --deleted --modified --others --stage --ignored --exclude=* "
        "--exclude-standard --error-unmatch --full-name --eol",
        via=_GIT,
    ),
    *presets(None, "ls-tree", "-d -r -t -z -l --long --name-only --name-status --full-name --full-tree", via=_GIT),
    *presets(None, "cat-file", "-e -p -t -s", via=_GIT),
    *presets(
        None,
        "rev-list",
        "-# -n=* --max-count=* --skip=* --all --count --reverse --merges --no-merges --first-parent --since=* "
        "--until=* --author=* --grep=* --left-right",
        via=_GIT,
    ),
    *presets(None, "merge-base", "-a --all --is-ancestor", names(_REVISION), via=_GIT),
    *presets(
        None, "describe", "--all --tags --long --always --first-parent --exact-match", names(_REVISION), via=_GIT
    ),
    *presets(
        None,
        "grep",
        "-# -n -i -w -l -L -c -E -F -P -G -v -h -H -o -I -q -a -p -W -e=* -A=* -B=* -C=* -m=* --cached --untracked "
        "--count --line-number --ignore-case --word-regexp --fixed-strings --extended-regexp --perl-regexp "
        "--name-only --files-with-matches --files-without-match --heading --break --max-depth=* --and --or --not "
        "--all-match --no-color --color=?",
        pattern,
        via=_GIT,
    ),
    *presets(None, "rev-parse", "--short=? --abbrev-ref=? --verify -q --show-toplevel --show-prefix", via=_GIT),
    *presets(None, "branch", "-a -r -v --all --remotes --show-current --no-color", nothing, via=_GIT),
    *presets(None, "branch --list", "-a -r -v --all --remotes --no-color", via=_GIT),
    *presets(None, "tag", "", nothing, via=_GIT),
    *presets(None, "tag --list, tag -l", "", via=_GIT),
    *presets(None, "remote", "-v", nothing, via=_GIT),
    *presets(None, "stash list", "", nothing, via=_GIT),
)
