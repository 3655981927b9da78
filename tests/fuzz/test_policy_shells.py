"""Two real shells start exactly the words that the policy says for each line it lets through, and nothing else.

A command is never handed to a shell; so this is not how the bot runs anything. It shows that the grammar has no blind
spot: whatever a shell would do beyond starting one program with these words, the policy has refused.

`make fuzz` runs the long form. CODER_FUZZ_SEED picks other lines, CODER_FUZZ_LINES how many."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import string
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest

from bot.domain.commands_policy import Allowed, Policy, Refused
from bot.domain.presets import PRESETS
from tests.domain.test_presets import FINE, REFUSED

SEED = int(os.environ.get("CODER_FUZZ_SEED", "1"))
LINES = int(os.environ.get("CODER_FUZZ_LINES", "100000"))
FEW = 2_000
BATCH = 250

POLICY = Policy.of(allow=["say *"])
PROGRAMS = sorted({"say", *(preset.words[0] for preset in PRESETS)})
SHELLS = {
    "dash": ["-x"],
    # Also with what people switch on where they type.
    "bash": ["--norc", "--noprofile", "-O", "extglob", "-O", "globstar", "-O", "dotglob", "-x"],
}

# Writes its words, how many they are, and whether its files are the ones that the shell was given. It starts nothing.
RECORDER = r"""#!{dash}
files='as given'
[ /proc/self/fd/0 -ef /dev/null ] && [ /proc/self/fd/1 -ef /dev/null ] && [ /proc/self/fd/2 -ef '{said}' ] ||
  files=redirected
for more in 3 4 5 6 7 8 9; do [ ! -e /proc/self/fd/$more ] || files=redirected; done
printf '%s\0' "$#" "${{0##*/}}" "$@" "$files" >>'{record}'
"""


@dataclass(frozen=True, kw_only=True)
class Room:
    """A folder with a file for every glob to find, a PATH of recorders, and what they recorded."""

    folder: Path
    programs: Path
    record: Path
    said: Path

    @classmethod
    def make(cls, top: Path) -> Room:
        room = cls(folder=top / "folder", programs=top / "programs", record=top / "record", said=top / "said")
        room.folder.mkdir()
        room.programs.mkdir()
        for name in {*string.ascii_letters, *string.digits, *string.punctuation} - {".", "/"}:
            (room.folder / name).touch()
        for name in ("aa", "ab", ".hidden", "src", "tests", "é", "-q", "a=b"):
            (room.folder / name).touch()
        recorder = room.programs / PROGRAMS[0]
        recorder.write_text(RECORDER.format(dash=_where("dash"), record=room.record, said=room.said))
        recorder.chmod(0o755)
        for program in PROGRAMS[1:]:
            (room.programs / program).hardlink_to(recorder)
        return room

    def run(self, shell: str, lines: Sequence[str], words: Sequence[Sequence[str]]) -> str | None:
        """What a shell did with these lines beyond starting these words, one program a line, if anything."""
        before = self._files()
        self.record.unlink(missing_ok=True)
        script = self.record.with_name("script")
        script.write_text("".join(f"{line}\n" for line in lines))
        with self.said.open("wb") as stderr:
            done = subprocess.run(
                [_where(shell), *SHELLS[shell], str(script)],
                cwd=self.folder,
                env={"PATH": str(self.programs), "HOME": "/home/of/somebody", "LC_ALL": "C.UTF-8", "PS4": "+ "},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                timeout=120,
            )
        said = self.said.read_text("utf-8", "replace").splitlines()
        started = self.record.read_bytes() if self.record.exists() else b""
        wanted = "".join(f"{word}\0" for argv in words for word in (len(argv) - 1, *argv, "as given")).encode()
        if started != wanted:
            return f"{shell} started other words: {started!r} instead of {wanted!r}; it said {said[:3]}"
        # With -x a shell says each command it carries out, its own ones as well, and whatever else it has to say.
        if len(said) != len(lines) or not all(line.startswith("+ ") for line in said) or done.returncode:
            return f"{shell} did more than start programs: {said!r}"
        if self._files() != before:
            return f"{shell} wrote files: {self._files() ^ before}"
        return None

    def _files(self) -> set[tuple[str, int]]:
        return {(str(file), file.lstat().st_size) for top in (self.folder, self.programs) for file in top.rglob("*")}


def _where(shell: str) -> str:
    found = shutil.which(shell)
    assert found, f"{shell} is not here"
    return found


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Room:
    return Room.make(tmp_path_factory.mktemp("shells"))


# What lines are made of: each is put where a shell might see something else in it than we do.
CHARS = (
    "'\"\\ \t$`;&|<>(){}[]*?~#!-=/.@%^+,:0aZ_\n\r\0\x01\x7f\x81\x85\x88\xa0"
    "é日😀ａ’“–\u200b\u2028\u3000\u202e\ufeff\u0301"
)
SHORT_TRICKS = r"""
$IFS ${IFS} $'\x61' $"a" <(say) >out 2>&1 <a && || ; & {a,b} {1..3} * ? [a-z] ** +(a) ~ ~root ~+ a=~ a:~ !! !$ ^a^b #x
'' "" '\'' "\"" "\\" \\ \' \" '$x' '`x`' 'a;b' "a|b" \a "\a" A=b ( ) { } if then ! time exec eval --
"""
LONG_TRICKS = ["$(say x)", "`say x`", " & ", " #", "\\ ", "'a  b'", '"a b"', "A=b ", "{ ", " }", "\\\n", "\n", " -- "]
TRICKS = [*SHORT_TRICKS.split(), *LONG_TRICKS]


def lines(seed: int) -> Iterator[str]:
    """Lines of developers, changed by those who would like more than a developer."""
    source = random.Random(seed)
    makers = [
        _as_it_is,
        _requoted,
        _requoted,
        _with_tricks,
        _with_tricks,
        _said,
        _said,
        _and_one,
        _of_options,
        _noise,
    ]
    while True:
        yield source.choice(makers)(source)


def _as_it_is(source: random.Random) -> str:
    return source.choice(FINE if source.random() < 0.8 else REFUSED)


def _requoted(source: random.Random) -> str:
    """The same words, quoted in another way that means the same."""
    argv = shlex.split(source.choice(FINE))
    blanks = [" ", "  ", "\t", " \t "]
    return "".join(_quoted(source, word) + source.choice(blanks) for word in argv)


def _quoted(source: random.Random, word: str) -> str:
    out = []
    for char in word:
        ways = [f"'{char}'" if char != "'" else "\\'", f"\\{char}", char, char, char]
        out.append(source.choice([*ways, f'"{char}"' if char not in '"\\$`!' else f"\\{char}"]))
    return source.choice(["", "", "''", '""']).join(out) or "''"


def _with_tricks(source: random.Random) -> str:
    line = source.choice(FINE)
    for _ in range(source.randint(1, 4)):
        place = source.randint(0, len(line))
        piece = source.choice(source.choice([TRICKS, CHARS]))
        line = line[:place] + piece + line[place + source.randint(0, 2) :]
    return line


def _and_one(source: random.Random) -> str:
    """A good line and one trick behind it."""
    return f"{source.choice([*FINE, 'say'])}{source.choice([' ', ' ', ' a=', ''])}{source.choice(TRICKS)}"


def _said(source: random.Random) -> str:
    """Anything at all as words of a program that a rule opens."""
    pieces = [source.choice(source.choice([TRICKS, CHARS, CHARS])) for _ in range(source.randint(0, 6))]
    if source.random() < 0.7:
        pieces = [piece if source.random() < 0.3 else _harmless(source, piece) for piece in pieces]
    return "say " + source.choice(["", " "]).join(pieces)


def _harmless(source: random.Random, piece: str) -> str:
    return _quoted(source, piece) if source.random() < 0.3 else "'" + piece.replace("'", "'\\''") + "'"


def _of_options(source: random.Random) -> str:
    preset = source.choice(PRESETS)
    options = source.sample(sorted(preset.options), min(len(preset.options), source.randint(0, 4)))
    glued = [option if source.random() < 0.6 else f"{option}={source.choice(TRICKS)}" for option in options]
    return " ".join(
        [*preset.words, *glued, *source.sample(["src", "'a b'", "a", "test", "1p", "-x"], source.randint(0, 2))]
    )


def _noise(source: random.Random) -> str:
    start = source.choice(["", "say ", "say '", 'ls "', "pytest "])
    return start + source.randbytes(source.randint(0, 12)).decode(
        "utf-8", source.choice(["replace", "surrogateescape"])
    )


def check(room: Room, count: int) -> None:
    print(f"CODER_FUZZ_SEED={SEED} CODER_FUZZ_LINES={count}")
    decided = [(line, POLICY.decide(line)) for line in islice(lines(SEED), count)]
    allowed = [(line, decision.argv) for line, decision in decided if isinstance(decision, Allowed)]
    assert count / 4 < len(allowed) < count * 3 / 4, "both answers have to be tried"
    for start in range(0, len(allowed), BATCH):
        batch = allowed[start : start + BATCH]
        for shell in SHELLS:
            found = room.run(shell, [line for line, _ in batch], [argv for _, argv in batch])
            if found is not None:
                alone = [why for line, argv in batch if (why := room.run(shell, [line], [argv])) is not None]
                pytest.fail(f"seed {SEED}: {alone or found}")
    print(f"{len(allowed)} of {count} lines were allowed; dash and bash started exactly their words")


def test_shells_start_exactly_the_words_of_what_is_allowed(room: Room) -> None:
    check(room, FEW)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_shells_start_exactly_the_words_of_very_many_lines(room: Room) -> None:
    check(room, LINES)


MORE = [
    *(
        "say a; say b",
        "say a & say b",
        "say a | say b",
        "say a && true",
        "say a || true",
        "say $(say b)",
        "say `say b`",
    ),
    *("say $HOME", "say ~", "say ~root", "say *", "say ?", "say [a]", "say a #b", "say a >out", "say a 2>/dev/null"),
    *("say a >/dev/stderr", "say a 2>&1", "say a <a", "say a 3<a", "say 'a", "A=b say a", "PATH=. say a", "(say a)"),
    *("{ say a; }", "! say a", "exec say a", "cd /", "nothing a", "say() { :; }", "say a\nsay b", "say a\\\nb"),
]
MORE_IN_BASH = ["say {a,b}", "say a=~", "say $'a'", "say <(say a)", "say **", "say +(a)", "time say a", "[[ a ]]"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_line_with_which_a_shell_does_more_is_found_out(room: Room, shell: str) -> None:
    """If the policy let one of these through as the words it looks like, the tests above would tell."""
    assert room.run(shell, ["say 'a b' c"], [("say", "a b", "c")]) is None
    for line in MORE + (MORE_IN_BASH if shell == "bash" else []):
        looks_like = line.replace("'", "").replace("\\", "").split()
        assert room.run(shell, [line], [looks_like]) is not None, line
        assert isinstance(POLICY.decide(line), Refused)
