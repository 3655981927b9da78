"""How quickly text is redacted, against the same expressions in Python's own `re` in the same run.

    python -m benchmarks.redaction [--megabytes N]

The text is log lines, with one secret of each kind at random places: each exact value in each encoding, and each
shape. It is given in pieces of some hundred kilobytes, far more than the bot ever says at once: with very large ones
what is measured is how the system gives out memory. Megabytes a second are of this process's own processor time, the
best of a few rounds once everything is warm; the ratio is what may be compared.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from urllib.parse import quote

from bot.domain.redaction import MASK, Redactor
from bot.domain.secret_shapes import SHAPES

ROUNDS = 15
LINES = 2_000
SLOW_BYTES = 2_000_000
"""As much as Python's `re` is given: it takes long enough for that."""


def main(megabytes: int) -> None:
    chance = random.Random(1)  # noqa: S311 - the text is the same each time
    secrets = [_word(chance, 40), _word(chance, 48) + "+/=&?", f"{_word(chance, 24)}\"'\\"]
    hits = [*_encoded(secrets), *_shaped(chance)]
    text = _log(chance, megabytes * 1_000_000, hits)
    redactor = Redactor(secrets)
    cleaned = redactor.redact(text)
    left = [secret for secret in secrets if secret in cleaned]
    print(
        f"google-re2 {version('google-re2')}, Python {sys.version.split()[0]}; {len(text) / 1e6:.0f} MB of log text, "
        f"{len(hits)} secrets planted, {cleaned.count(MASK)} masks, {len(left)} values left"
    )
    del cleaned
    ours = _speed(redactor.redact, text)
    clean = _log(chance, megabytes * 1_000_000, [])
    assert redactor.redact(clean) == clean
    print(f"{'text without a secret':26}{_speed(redactor.redact, clean):8.0f} MB/s")
    part = text[: min(len(text), SLOW_BYTES)]
    patterns = [
        re.compile(each) for each in (*(re.escape(s.encode()) for s in secrets), *(s.pattern for s in SHAPES))
    ]
    theirs = _speed(lambda each: _plain(patterns, each), part, rounds=2)
    print(f"{'one secret of each kind':26}{ours:8.0f} MB/s")
    print(f"{'Python re, exact and shapes':26}{theirs:7.1f} MB/s ({ours / theirs:.0f}x)")


def _plain(patterns: Sequence[re.Pattern[bytes]], text: str) -> str:
    """One pattern after the other: quicker than all of them as alternatives of one."""
    data = text.encode()
    for pattern in patterns:
        data = pattern.sub(MASK.encode(), data)
    return data.decode()


def _speed(work: Callable[[str], str], text: str, rounds: int = ROUNDS) -> float:
    lines = text.splitlines(keepends=True)
    pieces = ["".join(lines[at : at + LINES]) for at in range(0, len(lines), LINES)]
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        for piece in pieces:
            work(piece)
        best = min(best, time.process_time() - began)
    return len(text) / 1e6 / best


def _word(chance: random.Random, length: int) -> str:
    return "".join(chance.choices("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=length))


def _encoded(secrets: Sequence[str]) -> list[str]:
    found = []
    for secret in secrets:
        found += [secret, quote(secret, safe=""), json.dumps(secret), secret.encode().hex()]
        found += [base64.b64encode(b"u" * before + secret.encode()).decode() for before in range(3)]
    return found


def _shaped(chance: random.Random) -> list[str]:
    word = _word(chance, 60)
    jwt = f"eyJ{word}.eyJ{word}.{word}"
    key = "\n".join(_word(chance, 64) for _ in range(24))
    begin = "-----BEGIN {} KEY-----"
    return [
        *(f"{kind}_{word}" for kind in ("ghp", "gho", "ghu", "ghs", "ghr", "github_pat", "npm", "hf", "e2b", "gsk")),
        *(f"{kind}-{word}" for kind in ("sk", "sk-proj", "xoxb", "glpat", "pypi", "GOCSPX", "tskey")),
        f"ghs_1234567_{jwt}", jwt, f"AKIA{word.upper()[:16]}", f"AIza{word[:35]}", f"ya29.{word}", f"sk_live_{word}",
        f"SG.{word[:22]}.{word[:43]}", f"whsec_{word}", f"hvs.{word}", f"dckr_pat_{word}", f"ATATT3x{word}",
        base64.b64encode(f"x-access-token:ghs_{word}".encode()).decode(),
        f"{begin.format('RSA PRIVATE')}\n{key}\n{begin.format('RSA PRIVATE').replace('BEGIN', 'END')}",
        f"https://hooks.slack.com/services/T{word[:8]}/B{word[:8]}/{word[:24]}",
        f"https://discord.com/api/webhooks/123456789012345678/{word}",
        f"postgresql://bot:{word[:20]}@db.example.org/x", f"https://bot:{word[:20]}@example.org/x",
        f"Authorization: Bearer {word}", f"X-Api-Key: {word}", f"Cookie: session={word}",
        f"machine example.org login bot password {word}", f'"auth": "{base64.b64encode(word.encode()).decode()}"',
        f"//registry.example.org/:_authToken={word}", f"password={word[:16]}", f'"client_secret": "{word}"',
        f"--token {word}", f"curl -u bot:{word}",
    ]  # fmt: skip


def _log(chance: random.Random, size: int, hits: Sequence[str]) -> str:
    lines, length = [], 0
    while length < size:
        line = (
            f"2026-01-02T{chance.randrange(24):02d}:{chance.randrange(60):02d}:{chance.randrange(60):02d}Z info "
            f"[worker {chance.randrange(8)}] GET https://api.example.org/repos/o/r/{chance.randrange(10**6)} 200 "
            f"in {chance.random():.3f} s, commit {chance.randbytes(20).hex()}, token count {chance.randrange(9999)}"
        )
        lines.append(line)
        length += len(line) + 1
    for hit in hits:
        lines[chance.randrange(len(lines))] += f" {hit} "
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=32)
    main(parser.parse_args().megabytes)
