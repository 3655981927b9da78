"""Keys on disk and from the operator: made once, never replaced in silence, and kept for what they have signed."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa, utils
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from bot import signing
from bot.domain import attestation
from bot.domain.errors import UserError
from bot.settings import Settings, load
from tests.domain.test_attestation import DOCUMENT

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(days=30)


def settings(home: Path, **values: str) -> Settings:
    return load({"CODER_HOME": str(home), **values})


def private_pem(key: Any, encryption: KeySerializationEncryption | None = None) -> str:
    pem: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())
    return pem.decode()


def public_pem(key: Any) -> str:
    pem: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem.decode()


def opens(signed: dict[str, Any], keys: tuple[signing.PublicKey, ...]) -> bool:
    data = json.dumps(signed).encode()
    return attestation.open(data, {key.keyid: key.verify for key in keys}).document == DOCUMENT


def complaint(ours: Settings) -> str:
    with pytest.raises(UserError) as caught:
        signing.load(ours)
    said = str(caught.value)
    assert "\n" not in said
    assert "MC4CAQ" not in said  # as every Ed25519 key begins
    return said


def test_our_encoding_is_what_the_example_of_dsse_was_signed_for() -> None:
    # https://github.com/secure-systems-lab/dsse/blob/master/protocol.md, "Test Vectors"
    x = 46950820868899156662930047687818585632848591499744589407958293238635476079160
    y = 5640078356564379163099075877009565129882514886557779369047442380624545832820
    key = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    raw = base64.b64decode("A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA==")
    signature = utils.encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))
    signed = attestation.pae("http://example.com/HelloWorld", b"hello world")
    key.verify(signature, signed, ec.ECDSA(hashes.SHA256()))
    with pytest.raises(InvalidSignature):
        key.verify(signature, signed + b"!", ec.ECDSA(hashes.SHA256()))


def test_a_key_is_made_at_first_need_and_stays_the_same(tmp_path: Path) -> None:
    ours = settings(tmp_path / "home")
    assert signing.known(ours) == ()
    first = signing.load(ours, clock=lambda: NOW)
    again = signing.load(ours, clock=lambda: LATER)
    assert first.keyid == again.keyid
    assert first.sign(DOCUMENT) == again.sign(DOCUMENT)
    [key] = signing.known(ours)
    assert (key.keyid, key.created_at, key.retired_at, key.in_use) == (first.keyid, NOW, None, True)
    assert opens(first.sign(DOCUMENT), (key,))
    folder = tmp_path / "home" / "keys"
    assert stat.S_IMODE((folder / "receipt.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(os.listdir(folder)) == ["lock", "receipt.pem"]


def test_processes_that_start_at_once_come_to_one_key(tmp_path: Path) -> None:
    code = "from bot import settings, signing; print(flush=True); input(); print(signing.load(settings.load()).keyid)"
    env = {**os.environ, "CODER_HOME": str(tmp_path)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(6)
    ]
    said = set()
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        out, _ = process.communicate(timeout=60)
        said.add((process.returncode, out.strip()))
    [key] = signing.known(settings(tmp_path))
    assert said == {(0, key.keyid)}


def test_after_rotation_the_old_key_still_verifies_and_has_its_dates(tmp_path: Path) -> None:
    ours = settings(tmp_path)
    old = signing.load(ours, clock=lambda: NOW)
    before = old.sign(DOCUMENT)
    made = signing.rotate(ours, clock=lambda: LATER)
    new = signing.load(ours)
    assert new.keyid == made.keyid != old.keyid
    keys = signing.known(ours)
    assert [(key.keyid, key.created_at, key.retired_at, key.in_use) for key in keys] == [
        (new.keyid, LATER, None, True),
        (old.keyid, NOW, LATER, False),
    ]
    assert opens(before, keys)
    assert opens(new.sign(DOCUMENT), keys)
    assert not (tmp_path / "keys" / "retired").joinpath("receipt.pem").exists()
    for _ in range(3):
        signing.rotate(ours)
    assert opens(before, signing.known(ours))
    assert len(signing.known(ours)) == 5


def test_rotation_where_there_is_no_key_yet_makes_the_first(tmp_path: Path) -> None:
    made = signing.rotate(settings(tmp_path))
    assert [key.keyid for key in signing.known(settings(tmp_path))] == [made.keyid]


def test_rotation_that_died_in_between_leaves_the_old_key_in_use(tmp_path: Path) -> None:
    ours = settings(tmp_path)
    old = signing.load(ours)
    text = (tmp_path / "keys" / "receipt.pem").read_text()
    signing.rotate(ours)
    (tmp_path / "keys" / "receipt.pem").write_text(text)  # as if the second of the two writes had not come
    [key] = signing.known(ours)
    assert (key.keyid, key.in_use, key.retired_at) == (old.keyid, True, None)


def test_published_keys_are_read_back_as_they_were(tmp_path: Path) -> None:
    ours = settings(tmp_path)
    signing.load(ours, clock=lambda: NOW)
    signing.rotate(ours, clock=lambda: LATER)
    keys = signing.known(ours)
    document = signing.document(keys)
    assert signing.read(json.dumps(document).encode(), "keys") == keys
    assert document["version"] == 1
    assert document["keys"][1] == {
        "keyid": keys[1].keyid,
        "algorithm": "ed25519",
        "public_key": base64.b64encode(keys[1].raw).decode(),
        "pem": keys[1].pem,
        "created_at": "2026-01-01T00:00:00+00:00",
        "retired_at": "2026-01-31T00:00:00+00:00",
        "in_use": False,
    }
    both = "".join(key.pem for key in keys)
    assert [key.raw for key in signing.read(both.encode(), "keys.pem")] == [key.raw for key in keys]


def test_the_operators_secret_store_outranks_the_disk_and_old_keys_are_kept(tmp_path: Path) -> None:
    on_disk = signing.load(settings(tmp_path)).sign(DOCUMENT)
    store, before = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    file = tmp_path / "secret"
    file.write_text(private_pem(store))
    given = {"CODER_RECEIPT_KEY_FILE": str(file), "CODER_RECEIPT_OLD_KEYS": public_pem(before)}
    ours = settings(tmp_path, **given)
    signer = signing.load(ours)
    assert signer.keyid == attestation.keyid(store.public_key().public_bytes_raw())
    keys = signing.known(ours)
    assert [key.raw for key in keys if key.in_use] == [keys[0].raw] == [store.public_key().public_bytes_raw()]
    assert before.public_key().public_bytes_raw() in {key.raw for key in keys}
    assert opens(on_disk, keys)
    assert private_pem(store).strip() in ours.secrets
    with pytest.raises(UserError, match="CODER_RECEIPT_KEY: put a new one there"):
        signing.rotate(ours)
    one_line = settings(tmp_path, CODER_RECEIPT_KEY=private_pem(store).replace("\n", "\\n"))
    assert signing.load(one_line).keyid == signer.keyid


def test_an_old_document_of_keys_can_be_given_as_old_keys_and_none_of_it_is_in_use(tmp_path: Path) -> None:
    elsewhere = settings(tmp_path / "a")
    old = signing.load(elsewhere)
    printed = json.dumps(signing.document(signing.known(elsewhere)))
    ours = settings(tmp_path / "b", CODER_RECEIPT_OLD_KEYS=printed)
    new = signing.load(ours)
    assert [(key.keyid, key.in_use) for key in signing.known(ours)] == [(new.keyid, True), (old.keyid, False)]


RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
ENCRYPTED = private_pem(Ed25519PrivateKey.generate(), BestAvailableEncryption(b"secret"))
GOOD = private_pem(Ed25519PrivateKey.generate())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty: "),
        (" \n", "is empty: "),
        (GOOD[:60], "holds no PEM private key that can be read: "),
        (GOOD.replace("MC4C", "MC4D"), "holds no PEM private key that can be read: "),
        (public_pem(RSA), "holds no PEM private key that can be read: "),
        ("\0\udcff", "holds no PEM private key that can be read: "),
        (ENCRYPTED, "is protected by a passphrase"),
        (private_pem(RSA), "holds a key of another kind than Ed25519: "),
    ],
    ids=range(8),
)
def test_a_key_that_can_not_be_used_is_said_and_left_where_it_is(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "keys" / "receipt.pem"
    file.parent.mkdir(mode=0o700)
    file.write_text(text, errors="surrogateescape")
    file.chmod(0o600)
    data = file.read_bytes()
    ours = settings(tmp_path)
    assert complaint(ours).startswith(f"{file} {said}")
    for use in (signing.known, signing.rotate):
        with pytest.raises(UserError, match=r"receipt\.pem"):
            use(ours)
    assert file.read_bytes() == data


def test_a_secret_that_can_not_be_used_is_said_by_the_name_of_its_setting(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    for text, said in (("", "is empty"), ("x", "holds no PEM"), (private_pem(RSA), "holds a key of another kind")):
        file.write_text(text)
        ours = settings(tmp_path / "home", CODER_RECEIPT_KEY_FILE=str(file))
        assert complaint(ours).startswith(f"CODER_RECEIPT_KEY {said}")
    assert not (tmp_path / "home").exists()
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="CODER_RECEIPT_KEY_FILE is not a text file"):
        settings(tmp_path, CODER_RECEIPT_KEY_FILE=str(file))


def test_a_key_that_others_can_read_or_replace_is_refused(tmp_path: Path) -> None:
    ours = settings(tmp_path)
    signer = signing.load(ours)
    folder = tmp_path / "keys"
    file = folder / "receipt.pem"
    file.chmod(0o644)
    assert complaint(ours).startswith(f"Others may read {file} (its mode is 644): `chmod 600` it")
    file.chmod(0o600)
    folder.chmod(0o777)
    assert complaint(ours) == f"Others may put another key into {folder}: `chmod 700` it."
    folder.chmod(0o700)
    assert signing.load(ours).keyid == signer.keyid


def test_what_is_no_file_is_no_key(tmp_path: Path) -> None:
    ours = settings(tmp_path)
    file = tmp_path / "keys" / "receipt.pem"
    file.mkdir(parents=True)
    assert complaint(ours).startswith(f"{file} ")
    file.rmdir()
    os.mkfifo(file, 0o600)
    assert complaint(ours) == f"{file} is not a file; put the key there, or take it away."
    file.unlink()
    file.symlink_to(tmp_path / "nowhere")
    assert complaint(ours).startswith(f"{file} can't be read: No such file or directory.")
    file.unlink()
    file.write_bytes(b"x" * 70_000)
    file.chmod(0o600)
    assert complaint(ours) == f"{file} is larger than 64 KiB, and so no key."


def test_a_home_in_which_no_key_can_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a file in the way")
    assert complaint(settings(tmp_path)).startswith(f"{tmp_path / 'keys' / 'receipt.pem'} can't be read: Not a dir")
    (tmp_path / "home").write_text("")
    assert complaint(settings(tmp_path / "home")).startswith(str(tmp_path / "home"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no public Ed25519 key"),
        ("no key", "holds no public Ed25519 key"),
        (GOOD, "holds a private key; only the public half belongs there"),
        (public_pem(RSA), "holds a key of another kind than Ed25519"),
        (
            "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
            "holds something in PEM that is no public key",
        ),
        ("-----BEGIN PUBLIC KEY-----\n" * 40_000, "holds no public Ed25519 key"),
        ("{", "is not JSON"),
        ('{"version": 1, "version": 1, "keys": []}', "names a key twice"),
        ('{"version": 2, "keys": []}', "is no document of public keys"),
        ('{"version": 1, "keys": {}}', "is no document of public keys"),
        ('{"version": 1, "keys": []}', "holds no public Ed25519 key"),
        ('{"version": 1, "keys": [{"algorithm": "rsa"}]}', "holds no public Ed25519 key"),
        ('{"version": 1, "keys": [{"algorithm": "ed25519"}]}', "has a key without `keyid`"),
        ('{"version": 1, "keys": [7]}', "has a key without `keyid`"),
        (json.dumps({"version": 1, "keys": [7] * 1001}), "has more than 1000 keys"),
    ],
    ids=range(15),
)
def test_files_of_public_keys_that_are_none_are_refused_with_one_line(text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        signing.read(text.encode(), "given.pem")
    assert str(caught.value).startswith(f"given.pem {said}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("public", ["AAAA", "é", base64.b64encode(b"x" * 32).decode()])
def test_a_published_key_under_an_id_that_is_not_its_own_is_refused(public: str) -> None:
    entry = {"algorithm": "ed25519", "keyid": "ed25519:" + "0" * 32, "public_key": public}
    with pytest.raises(UserError, match="has a key whose id is not its own"):
        signing.read(json.dumps({"version": 1, "keys": [entry]}).encode(), "keys")


def test_dates_that_are_none_are_not_known(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    raw = key.public_key().public_bytes_raw()
    entry: dict[str, Any] = {"algorithm": "ed25519", "keyid": attestation.keyid(raw)}
    entry |= {"public_key": base64.b64encode(raw).decode(), "created_at": "yesterday", "retired_at": 7}
    [read] = signing.read(json.dumps({"version": 1, "keys": [entry]}).encode(), "keys")
    assert (read.created_at, read.retired_at, read.in_use) == (None, None, False)
    file = tmp_path / "keys" / "receipt.pem"
    file.parent.mkdir(mode=0o700)
    file.write_text(private_pem(key))  # the operator's own, with no date before it
    file.chmod(0o600)
    [kept] = signing.known(settings(tmp_path))
    assert (kept.raw, kept.created_at) == (raw, None)


def test_a_retired_key_that_can_not_be_read_is_said_and_not_forgotten(tmp_path: Path) -> None:
    ours = settings(tmp_path)
    old = signing.load(ours)
    signing.rotate(ours)
    file = tmp_path / "keys" / "retired" / f"{old.keyid.partition(':')[2]}.pem"
    file.write_text("")
    with pytest.raises(UserError, match="holds no public Ed25519 key"):
        signing.known(ours)
