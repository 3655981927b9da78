"""The keys that sign and check receipts: on disk, from the operator's secret store, or as published."""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from bot.domain import attestation, strict_json
from bot.domain.attestation import Signer
from bot.domain.errors import UserError
from bot.settings import Settings

LOCK_S = 10.0
"""How long another process may take over making a key."""
FILE_LIMIT = 64 * 1024
KEYS_LIMIT = 1000
VERSION = 1
"""Of the document that publishes the keys."""
MAKE = "openssl genpkey -algorithm ed25519"
PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,40})-----[^-]*-----END \1-----\n?")


@dataclass(frozen=True, kw_only=True)
class PublicKey:
    """Checks what one key has signed. `in_use`: it signs new receipts. Dates are None where nobody knows them."""

    raw: bytes
    created_at: datetime | None = None
    retired_at: datetime | None = None
    in_use: bool = False

    @property
    def keyid(self) -> str:
        return attestation.keyid(self.raw)

    @property
    def pem(self) -> str:
        key = Ed25519PublicKey.from_public_bytes(self.raw)
        return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def verify(self, signature: bytes, message: bytes) -> bool:
        """Whether this key made that signature for that message."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def to_dict(self) -> dict[str, Any]:
        return {
            "keyid": self.keyid,
            "algorithm": "ed25519",
            "public_key": base64.b64encode(self.raw).decode(),
            "pem": self.pem,
            "created_at": self.created_at.isoformat() if self.created_at else None,
            "retired_at": self.retired_at.isoformat() if self.retired_at else None,
            "in_use": self.in_use,
        }


def utc_now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def load(settings: Settings, *, origin: str | None = None, clock: Callable[[], datetime] = utc_now) -> Signer:
    """This installation's key, made if there is none yet; of several processes that make one at once, one wins and
    all use its key. A key that is there and can't be used is a UserError: no other takes its place. `origin` is where
    the repositories are that receipts will speak of."""
    own = _given(settings) or _made(settings.coder_home, clock)
    return Signer(keyid=own.public.keyid, make=own.private.sign, origin=origin)


def known(settings: Settings) -> tuple[PublicKey, ...]:
    """This installation's keys, the one in use first. Makes none. A key that can't be read is a UserError, for what
    it signed could not be checked."""
    found = []
    if (given := _given(settings)) is not None:
        found.append(given.public)
    if (kept := _kept(settings.coder_home)) is not None:
        found.append(kept.public)
    if settings.coder_receipt_old_keys is not None:
        found += read(settings.coder_receipt_old_keys.encode(), "CODER_RECEIPT_OLD_KEYS")
    for file in _retired(settings.coder_home):
        found += read(_bytes(file), str(file))
    once: dict[bytes, PublicKey] = {}
    for key in found:
        once.setdefault(key.raw, key)
    signs = given or kept
    return tuple(replace(key, in_use=signs is not None and key.raw == signs.public.raw) for key in once.values())


def rotate(settings: Settings, *, clock: Callable[[], datetime] = utc_now) -> PublicKey:
    """A new key in place of the one in use, whose public half is kept with its dates. A process that runs already
    goes on with the key it began with."""
    if settings.coder_receipt_key is not None:
        raise UserError(
            f"The key comes from CODER_RECEIPT_KEY: put a new one there (`{MAKE}`), and the public half of the old "
            "one (`openssl pkey -pubout`) into CODER_RECEIPT_OLD_KEYS."
        )
    folder = _folder(settings.coder_home)
    with _locked(folder):
        if (old := _kept(settings.coder_home)) is not None:
            name = f"{old.public.keyid.removeprefix('ed25519:')}.pem"
            # First this one: a crash in between leaves the old key known and in use.
            _write(folder / "retired" / name, _dates(old.created_at, clock()) + old.public.pem)
        new = _Own(private=Ed25519PrivateKey.generate(), created_at=clock())
        _write(folder / "receipt.pem", new.text)
    return replace(new.public, in_use=True)


def document(keys: Iterable[PublicKey]) -> dict[str, Any]:
    """Public keys as they are published at `/.well-known/coder-bot-keys.json`."""
    return {"version": VERSION, "keys": [key.to_dict() for key in keys]}


def read(data: bytes, name: str) -> tuple[PublicKey, ...]:
    """The public keys in a file of that name: PEM, one or more, or a document of published keys. UserError where
    there is none."""
    keys = tuple(_published(data, name) if data.lstrip()[:1] == b"{" else _pem_keys(data, name))
    if not keys:
        raise UserError(
            f"{name} holds no public Ed25519 key, neither in PEM nor as `coder-bot receipt keys` prints it."
        )
    return keys


@dataclass(frozen=True, kw_only=True)
class _Own:
    """A whole key of ours."""

    private: Ed25519PrivateKey
    created_at: datetime | None

    @property
    def public(self) -> PublicKey:
        return PublicKey(raw=_raw(self.private.public_key()), created_at=self.created_at)

    @property
    def text(self) -> str:
        pem = self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        return _dates(self.created_at) + pem


def _given(settings: Settings) -> _Own | None:
    """The key from the operator's secret store."""
    if settings.coder_receipt_key is None:
        return None
    # In one line of an environment file its newlines are written as backslash and n.
    text = settings.coder_receipt_key.get_secret_value().replace("\\n", "\n").strip()
    return _own(f"{text}\n".encode(), "CODER_RECEIPT_KEY", f"set it to the whole PEM text that `{MAKE}` prints.")


def _kept(home: Path) -> _Own | None:
    """The key on disk."""
    file = _folder(home) / "receipt.pem"
    try:
        file.lstat()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise _unreadable(file, exc) from exc
    mend = (
        "put it back from your copy; if there is none, remove the file and a new key is made, but what the lost one "
        "has signed can then only be verified by its public half, if somebody has that."
    )
    return _own(_bytes(file, secret=True), str(file), mend)


def _retired(home: Path) -> list[Path]:
    folder = _folder(home) / "retired"
    try:
        return sorted(folder / name for name in os.listdir(folder) if name.endswith(".pem"))
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise _unreadable(folder, exc) from exc


def _made(home: Path, clock: Callable[[], datetime]) -> _Own:
    """The key on disk, made if there is none."""
    if (found := _kept(home)) is None:
        with _locked(_folder(home)):
            if (found := _kept(home)) is None:
                found = _Own(private=Ed25519PrivateKey.generate(), created_at=clock())
                _write(_folder(home) / "receipt.pem", found.text)
    return found


def _own(data: bytes, name: str, mend: str) -> _Own:
    # What was read stays out of the messages, and the parser's errors with it: it may be the key but for one letter.
    if not data.strip():
        raise UserError(f"{name} is empty: {mend}")
    try:
        key = load_pem_private_key(data, password=None)
    except TypeError as exc:
        raise UserError(f"{name} is protected by a passphrase, which nobody is there to type: remove it.") from exc
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise UserError(f"{name} holds no PEM private key that can be read: {mend}") from exc
    if not isinstance(key, Ed25519PrivateKey):
        raise UserError(f"{name} holds a key of another kind than Ed25519: {mend}")
    return _Own(private=key, created_at=_date(data.partition(b"-----")[0].decode("utf-8", "replace"), "created"))


def _folder(home: Path) -> Path:
    return home / "keys"


def _unreadable(file: Path, exc: OSError) -> UserError:
    return UserError(f"{file} can't be read: {exc.strerror}. It has to belong to whoever runs coder-bot.")


def _bytes(file: Path, *, secret: bool = False) -> bytes:
    """A file of the operator's; one with a secret in it has to be out of others' reach."""
    try:
        with open(file, "rb", opener=_at_once) as opened:
            status = os.fstat(opened.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UserError(f"{file} is not a file; put the key there, or take it away.")
            data = opened.read(FILE_LIMIT + 1)
        around = file.parent.stat()
    except OSError as exc:
        raise _unreadable(file, exc) from exc
    if secret and status.st_mode & 0o077:
        raise UserError(
            f"Others may read {file} (its mode is {stat.S_IMODE(status.st_mode):o}): `chmod 600` it, and if anybody "
            "has read it, `coder-bot receipt rotate`."
        )
    if secret and around.st_mode & 0o022:
        raise UserError(f"Others may put another key into {file.parent}: `chmod 700` it.")
    if len(data) > FILE_LIMIT:
        raise UserError(f"{file} is larger than {FILE_LIMIT // 1024} KiB, and so no key.")
    return data


def _at_once(path: str, flags: int) -> int:
    """A pipe that nobody writes to would be waited for otherwise."""
    return os.open(path, flags | os.O_NONBLOCK)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time makes keys. Machinery that fails here is the operator's to mend."""
    until = time.monotonic() + LOCK_S
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / "lock").open("a") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as exc:
                    if time.monotonic() > until:
                        raise UserError(f"Another process is making a key in {folder} and does not end.") from exc
                time.sleep(0.02)
            yield
    except OSError as exc:
        raise UserError(
            f"No key can be made in {folder}: {exc.strerror}. Let whoever runs coder-bot write there."
        ) from exc


def _write(file: Path, text: str) -> None:
    """The whole file or nothing, readable by its owner alone, and there after a power cut."""
    file.parent.mkdir(mode=0o700, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "w") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(name, file)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _dates(created_at: datetime | None, retired_at: datetime | None = None) -> str:
    """Lines that PEM allows before a key."""
    dates = {"created": created_at, "retired": retired_at}
    return "".join(f"{name}: {date.isoformat()}\n" for name, date in dates.items() if date is not None)


def _date(text: str, name: str) -> datetime | None:
    found = re.search(rf"^{name}: (\S+)$", text, re.MULTILINE)
    return _moment(found[1]) if found else None


def _moment(text: object) -> datetime | None:
    """A date with its zone, or None for whatever else stands there."""
    with contextlib.suppress(ValueError):
        if isinstance(text, str) and (found := datetime.fromisoformat(text)).tzinfo:
            return found
    return None


def _pem_keys(data: bytes, name: str) -> Iterator[PublicKey]:
    text = data.decode("utf-8", "replace").replace("\\n", "\n")
    end = 0
    for block in PEM.finditer(text):
        before, end = text[end : block.start()], block.end()
        if "PRIVATE KEY" in block[1]:
            raise UserError(
                f"{name} holds a private key; only the public half belongs there: `openssl pkey -pubout`."
            )
        try:
            key = load_pem_public_key(block[0].encode())
        except (ValueError, UnsupportedAlgorithm) as exc:
            raise UserError(f"{name} holds something in PEM that is no public key.") from exc
        if not isinstance(key, Ed25519PublicKey):
            raise UserError(f"{name} holds a key of another kind than Ed25519.")
        yield PublicKey(raw=_raw(key), created_at=_date(before, "created"), retired_at=_date(before, "retired"))


def _published(data: bytes, name: str) -> Iterator[PublicKey]:
    try:
        found = strict_json.read(data)
    except strict_json.NotJson as exc:
        raise UserError(f"{name} {exc}.") from exc
    if not isinstance(found, dict) or found.get("version") != VERSION or not isinstance(found.get("keys"), list):
        raise UserError(f"{name} is no document of public keys as `coder-bot receipt keys` prints it.")
    if len(found["keys"]) > KEYS_LIMIT:
        raise UserError(f"{name} has more than {KEYS_LIMIT} keys.")
    for each in found["keys"]:
        match each:
            case {"algorithm": "ed25519", "public_key": str(encoded), "keyid": str(keyid)}:
                try:
                    raw = base64.b64decode(encoded, validate=True)
                except (binascii.Error, ValueError):
                    raw = b""
                if len(raw) != 32 or attestation.keyid(raw) != keyid:
                    raise UserError(f"{name} has a key whose id is not its own.")
                yield PublicKey(
                    raw=raw,
                    created_at=_moment(each.get("created_at")),
                    retired_at=_moment(each.get("retired_at")),
                    in_use=each.get("in_use") is True,
                )
            case {"algorithm": str(kind)} if kind != "ed25519":
                continue  # a later version's
            case _:
                raise UserError(f"{name} has a key without `keyid`, `algorithm` or `public_key`.")


def _raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)
