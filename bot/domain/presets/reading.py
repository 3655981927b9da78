"""Programs that search and show files."""

from __future__ import annotations

from bot.domain.presets.preset import Preset, first, pattern, presets

_ADDRESS = r"(?:\d{1,9}|\$|/[^/\\\[]++/I?)"
_SHOW = rf"(?:{_ADDRESS}(?:,(?:\+\d{{1,9}}|{_ADDRESS}))?)?[p=]"
# sed's language can write files (`w`) and run programs (`e`): only which lines to print is let through.
_LINES = rf"{_SHOW}(?:;\x20?{_SHOW})*+"

PRESETS: tuple[Preset, ...] = (
    *presets(
        None,
        "rg",
        "-n -i -w -l -c -v -o -F -S -s -U -P -N -H -I -0 -x -u -p -q -. --hidden --no-ignore --files --no-heading "
        "--heading --json --stats --count --count-matches --files-with-matches --files-without-match --line-number "
        "--no-line-number --ignore-case --smart-case --case-sensitive --word-regexp --fixed-strings --multiline "
        "--multiline-dotall --pcre2 --only-matching --invert-match --column --vimgrep --trim --type-list "
        "--no-messages --quiet --no-filename --with-filename --line-regexp --text -a -e=* --regexp=* -g=* --glob=* "
        "--iglob=* -t=* --type=* -T=* --type-not=* -A=* -B=* -C=* --after-context=* --before-context=* --context=* "
        "-m=* --max-count=* -d=* --max-depth=* -M=* --max-columns=* --color=* --sort=* --sortr=* -r=* --replace=* "
        "-j=* --threads=* --max-filesize=*",
        pattern,
    ),
    *presets(
        None,
        "grep",
        "-# -n -i -r -E -F -P -G -v -w -x -c -l -L -h -H -o -q -s -z -a -I -b -e=* -A=* -B=* -C=* -m=* --recursive "
        "--line-number --ignore-case --word-regexp --line-regexp --count --files-with-matches --files-without-match "
        "--only-matching --invert-match --fixed-strings --extended-regexp --perl-regexp --no-filename "
        "--with-filename --no-messages --quiet --text --include=* --exclude=* --exclude-dir=* --regexp=* "
        "--after-context=* --before-context=* --context=* --max-count=* --color=?",
        pattern,
    ),
    *presets(
        None,
        "find",
        "-name=* -iname=* -path=* -ipath=* -wholename=* -iwholename=* -regex=* -iregex=* -regextype=* -type=* "
        "-size=* -mtime=* -mmin=* -ctime=* -cmin=* -atime=* -amin=* -newer= -maxdepth=* -mindepth=* -perm=* -links=* "
        "-printf=* -empty -not -o -or -a -and -print -print0 -ls -prune -xdev -mount -depth -true -false -executable "
        "-readable -writable -quit",
        style="single",
    ),
    *presets(
        None,
        "sed",
        f"-n -E -s --quiet --silent -e={_LINES} --expression={_LINES}",
        first(_LINES, "which lines to print, like `10,20p` or `/from/,/to/p`", frozenset({"-e", "--expression"})),
        needs="-n --quiet --silent",
    ),
    *presets(
        None,
        "ls",
        "-a -A -l -h -R -1 -d -t -S -r -F -p -s -i -n -g -o -c -u -X --all --almost-all --recursive --color=? "
        "--human-readable --group-directories-first --reverse --size --directory",
    ),
    *presets(None, "cat", "-n -b -s -A -E -T -v -e -t -u --number --number-nonblank --squeeze-blank --show-all"),
    *presets(None, "head, tail", "-# -n=* -c=* -q -v --lines=* --bytes=* --quiet --verbose"),
    *presets(None, "wc", "-l -w -c -m -L --lines --words --bytes --chars --max-line-length"),
    *presets(
        None,
        "diff",
        "-# -u -r -q -N -w -b -B -i -y -s -a -c -d -p -t -U=* -C=* -W=* -x=* --exclude=* --unified=? --recursive "
        "--brief --new-file --ignore-all-space --ignore-space-change --ignore-case --ignore-blank-lines "
        "--side-by-side --color=? --no-dereference --strip-trailing-cr",
    ),
)
