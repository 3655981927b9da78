"""`coder-bot receipt …`: checks receipts, with nothing of this installation needed but for its own keys, and keeps
these."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bot import settings as env
from bot.domain import attestation, receipt_schema, strict_json
from bot.domain.attestation import Opened
from bot.domain.errors import CoderError, UserError

if TYPE_CHECKING:
    import httpx

    from bot.signing import PublicKey

FETCH_S = 10.0
KEYS_SIZE_LIMIT = 1024**2
REDIRECTS = 3
NAMED = 12
"""Characters of an object's id that a line shows."""

receipts = typer.Typer(no_args_is_help=True, help="Signed receipts, and the keys they are signed with.")


@receipts.command("verify")
def verify(
    file: Annotated[str, typer.Argument(help="The receipt; `-`: standard input.")],
    key: Annotated[
        list[str] | None,
        typer.Option(
            help="A public key in PEM, or published keys: a file, or the address of "
            "`/.well-known/coder-bot-keys.json`. May be given again. Default: this installation's own keys.",
        ),
    ] = None,
    repo: Annotated[Path | None, typer.Option(help="A repository that has to have the tree.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")] = False,
) -> None:
    """Say whether a receipt is what its signer made. Exit code 0 only if all of it holds; a receipt that says Failed
    holds as well."""
    said: dict[str, Any] = dict.fromkeys(("verdict", "repository", "base", "tree", "commit", "keyid", "note"))
    try:
        keys = {each.keyid: each for each in _keys(key or [])}
        opened = attestation.open(_read(file), {keyid: each.verify for keyid, each in keys.items()})
        said |= {name: opened.document[name] for name in ("verdict", "repository", "base", "tree", "commit")}
        said["keyid"] = opened.keyids[0]
        if repo is not None:
            said["note"] = asyncio.run(_in_repository(repo, opened.document["tree"], opened.document["commit"]))
    except CoderError as exc:
        if not as_json:
            raise
        print(json.dumps({"ok": False, **said, "error": str(exc)}))
        raise typer.Exit(1) from exc
    if as_json:
        print(json.dumps({"ok": True, **said, "error": None}))
    else:
        print(_line(opened, keys[opened.keyids[0]], said["note"]))


@receipts.command("keys")
def print_keys() -> None:
    """Print this installation's public keys, as they are published."""
    from bot import signing

    print(json.dumps(signing.document(signing.known(env.load())), indent=2))


@receipts.command("rotate")
def rotate() -> None:
    """Make a new key; the public half of the old one is kept, so that its receipts still verify."""
    from bot import signing

    made = signing.rotate(env.load())
    print(f"New receipts are signed by {made.keyid}. Restart what runs already: it goes on with the old key.")


@receipts.command("schema")
def print_schema() -> None:
    """Print the receipt document's JSON Schema."""
    print(json.dumps(receipt_schema.schema(), indent=2))


def _keys(given: list[str]) -> list[PublicKey]:
    from bot import signing

    if given:
        return [key for each in given for key in signing.read(_key_file(each), each)]
    if own := signing.known(env.load()):
        return list(own)
    raise UserError(
        "This installation has no keys to check a receipt by: give --key, a PEM file or the address of the bot that "
        "signed it (https://…/.well-known/coder-bot-keys.json)."
    )


def _key_file(given: str) -> bytes:
    if given.startswith(("https://", "http://")):
        return asyncio.run(_fetch(given))
    data = _read(given, KEYS_SIZE_LIMIT)
    if len(data) > KEYS_SIZE_LIMIT:
        raise UserError(f"{given} is larger than {KEYS_SIZE_LIMIT // 1024} KiB, and so no file of keys.")
    return data


def _read(file: str, limit: int = strict_json.SIZE_LIMIT) -> bytes:
    """A file, or one byte more than the limit of what is larger."""
    if file == "-":
        return sys.stdin.buffer.read(limit + 1)
    try:
        with Path(file).open("rb") as opened:
            return opened.read(limit + 1)
    except (OSError, ValueError) as exc:
        raise UserError(f"{file} can't be read: {exc.strerror if isinstance(exc, OSError) else exc}.") from exc


async def _fetch(address: str) -> bytes:
    """Published keys; a redirect may lead elsewhere on the same origin, nowhere else."""
    import httpx

    try:
        async with asyncio.timeout(FETCH_S), httpx.AsyncClient(timeout=FETCH_S) as client:
            url = httpx.URL(address)
            for _ in range(REDIRECTS + 1):
                async with client.stream("GET", url, headers={"accept-encoding": "identity"}) as answer:
                    if not answer.has_redirect_location:
                        return await _body(answer, address)
                    next_url = url.join(answer.headers["location"])
                if _origin(next_url) != _origin(url):
                    raise UserError(f"{address} redirects to another origin; give the address that is meant.")
                url = next_url
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as exc:
        raise UserError(f"{address} can't be fetched: give its keys as a file, or try again.") from exc
    raise UserError(f"{address} redirects without an end.")


async def _body(answer: httpx.Response, address: str) -> bytes:
    if answer.status_code != 200:
        raise UserError(f"{address} answers with status {answer.status_code}; the keys are not there.")
    data = bytearray()
    async for chunk in answer.aiter_raw():
        data += chunk
        if len(data) > KEYS_SIZE_LIMIT:
            raise UserError(f"{address} is larger than {KEYS_SIZE_LIMIT // 1024} KiB, and so no document of keys.")
    return bytes(data)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


async def _in_repository(repo: Path, tree: str, commit: str | None) -> str:
    """How the repository has that tree. UserError where it has not."""
    from bot.demo import commits

    if commit is None:
        for name, found in (await commits.read_refs(repo)).items():
            if found.tree == tree:
                return f"{_plain(name)} in {repo} has that tree"
        raise UserError(f"Neither HEAD nor a branch or tag in {repo} has the tree {tree}.")
    found_now = await commits.read(repo, [commit, "HEAD"])
    named, head = found_now.get(commit), found_now.get("HEAD")
    if named is not None:
        if (named.id, named.tree) != (commit, tree):
            raise UserError(f"The commit {commit} in {repo} has the tree {named.tree}, the receipt is for {tree}.")
        return f"that commit in {repo} has that tree"
    if head is not None and head.tree == tree:
        return f"{repo} has no such commit, but its HEAD, {head.id[:NAMED]}, has that tree"
    raise UserError(f"{repo} has no commit {commit}, and its HEAD has not the tree {tree}.")


def _line(opened: Opened, key: PublicKey, note: str | None) -> str:
    receipt = opened.document
    counts = {
        word: sum(check[word] or 0 for check in receipt["checks"])
        for word in ("passed", "failed", "skipped")
        if any(check[word] is not None for check in receipt["checks"])
    }
    tests = [f"{count} tests {word}" for word, count in counts.items() if count or word == "passed"]
    commit = f", commit {receipt['commit'][:NAMED]}," if receipt["commit"] else ""
    retired = [f"a key retired at {key.retired_at.isoformat()}"] if key.retired_at else []
    draft = " (draft)" if receipt["draft"] else ""
    parts = [
        f"valid: {receipt['verdict']}{draft} for tree {receipt['tree'][:NAMED]}{commit} in {receipt['repository']}",
        *tests,
        f"signed by {key.keyid} at {receipt['created_at']}",
        *retired,
        *([note] if note else []),
    ]
    return _plain(", ".join(parts))


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in text)
