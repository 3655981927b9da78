"""A receipt as others can check it: an in-toto Statement about a tree, signed in a DSSE envelope.

The formats: https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md, its predicate
https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md, and
https://github.com/secure-systems-lab/dsse. Functions that are handed in make and check the signatures."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

from bot.domain import receipt_schema, strict_json
from bot.domain.errors import UserError

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
DOCUMENT = "coderBotReceipt"
"""The predicate's field with our own document; whoever doesn't know it ignores it."""
SIGNATURES_LIMIT = 16

RESULTS = {"Passed": "PASSED", "Failed": "FAILED", "Unverified": "WARNED"}
"""Our verdicts in the predicate's words. They have none for what nobody knows; what is WARNED has not passed."""

Verify: TypeAlias = Callable[[bytes, bytes], bool]
"""Whether a signature is one key's for a message."""

Reason = Literal[
    "not_json",  # no JSON of ours to read: too large, too deep, a key twice …
    "wrong_shape",  # JSON, but no envelope, no Statement, or a receipt that its schema refuses
    "unknown_key",  # no signature by a key that is trusted
    "bad_signature",  # the signature, or what it was made for, is not what it was
    "wrong_type",  # signed, but something else: another payload or another predicate
    "contradiction",  # what the Statement says of its subject is not what the receipt says
]


class AttestationError(UserError):
    """A receipt that proves nothing, and why."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A receipt whose signature holds. `keyids` are the trusted keys that signed it; all that did so are in it."""

    document: dict[str, Any]
    keyids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Signer:
    """One key at work. `make` signs bytes; `origin` is where the repositories are (`https://github.com`), or None
    where their names say all there is to say."""

    keyid: str
    make: Callable[[bytes], bytes]
    origin: str | None = None

    def sign(self, document: dict[str, Any]) -> dict[str, Any]:
        """The receipt's envelope; the same for the same document, if `make` is so."""
        payload = canonical(statement(document, origin=self.origin))
        return envelope(payload, {self.keyid: self.make(pae(PAYLOAD_TYPE, payload))})


def keyid(public_key: bytes) -> str:
    """The name of an Ed25519 key, from its 32 bytes."""
    return f"ed25519:{hashlib.sha256(public_key).hexdigest()[:32]}"


def statement(document: dict[str, Any], *, origin: str | None = None) -> dict[str, Any]:
    """What the receipt says, as an in-toto Statement about its tree and, if it is known, its commit."""
    digest = {"gitTree": document["tree"]}
    if document["commit"] is not None:
        digest["gitCommit"] = document["commit"]
    repository = document["repository"]
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": f"git+{origin}/{repository}" if origin else repository, "digest": digest}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "result": RESULTS[document["verdict"]],
            "configuration": list(_configuration(document)),
            **_tests(document),
            DOCUMENT: document,
        },
    }


def canonical(value: Any) -> bytes:
    """The bytes that are signed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def pae(payload_type: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: what a signature is made for."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def envelope(payload: bytes, signatures: Mapping[str, bytes]) -> dict[str, Any]:
    """A DSSE envelope; signatures by the id of their key."""
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [
            {"keyid": name, "sig": base64.b64encode(signature).decode()} for name, signature in signatures.items()
        ],
    }


def open(data: bytes, keys: Mapping[str, Verify]) -> Opened:
    """The receipt in an envelope, if a key of these has signed it as it is. Signatures by other keys are passed over,
    but one that names a key of these has to be right. Raises AttestationError."""
    sealed = _json(data, "The receipt")
    match sealed:
        case {"payload": str(encoded), "payloadType": str(kind), "signatures": list(listed)}:
            pass
        case {"version": _, "verdict": _}:
            raise AttestationError("wrong_shape", "The receipt is not signed: it stands there without its envelope.")
        case _:
            raise AttestationError(
                "wrong_shape",
                "The receipt is no DSSE envelope: it needs `payload`, `payloadType` and `signatures`.",
            )
    if kind != PAYLOAD_TYPE:
        raise AttestationError("wrong_type", f"The envelope holds something else than {PAYLOAD_TYPE}.")
    payload = _decode(encoded, "payload")
    message = pae(kind, payload)
    signatures = list(_signatures(listed))
    known = [(name, signature) for name, signature in signatures if name in keys]
    if not known:
        raise AttestationError(
            "unknown_key",
            f"The receipt is signed by {_shown(signatures[0][0])}, which is none of the keys that are trusted here.",
        )
    for name, signature in known:
        if not keys[name](signature, message):
            raise AttestationError(
                "bad_signature",
                f"The signature of {name} does not fit: the receipt was changed after it was signed.",
            )
    return Opened(document=_document(payload), keyids=tuple(dict.fromkeys(name for name, _ in known)))


def _signatures(listed: list[Any]) -> Iterator[tuple[str, bytes]]:
    if not 1 <= len(listed) <= SIGNATURES_LIMIT:
        raise AttestationError(
            "wrong_shape", f"The envelope has {len(listed)} signatures; 1 to {SIGNATURES_LIMIT} do."
        )
    for each in listed:
        match each:
            case {"keyid": str(name), "sig": str(signature)}:
                yield name, _decode(signature, "signature")
            case _:
                raise AttestationError("wrong_shape", "A signature in the envelope lacks its `keyid` or its `sig`.")


def _document(payload: bytes) -> dict[str, Any]:
    """Our document in a signed payload."""
    match _json(payload, "The signed payload"):
        case {"_type": str(kind), "predicateType": str(predicate_type)} if (kind, predicate_type) != (
            STATEMENT_TYPE,
            PREDICATE_TYPE,
        ):
            raise AttestationError("wrong_type", "What is signed is no in-toto Statement of test results.")
        case {
            "_type": str(),
            "predicateType": str(),
            "subject": [{"name": str(name), "digest": {"gitTree": str(tree), **digest}}],
            "predicate": {"result": str(result), "coderBotReceipt": dict(document)},
        }:
            pass
        case _:
            raise AttestationError("wrong_shape", "What is signed is no Statement with a receipt of coder-bot in it.")
    if document.get("version") != receipt_schema.VERSION:
        raise AttestationError(
            "wrong_shape", f"The receipt is not of version {receipt_schema.VERSION}, the one known here."
        )
    if problem := receipt_schema.problem(document):
        raise AttestationError("wrong_shape", f"The receipt does not fit its schema: {_shown(problem)}.")
    if (tree, digest.get("gitCommit")) != (document["tree"], document["commit"]):
        raise AttestationError("contradiction", "The receipt is for another tree or commit than its Statement.")
    repository = document["repository"]
    if name != repository and not name.endswith(f"/{repository}"):
        raise AttestationError("contradiction", "The receipt is for another repository than its Statement.")
    if result != RESULTS[document["verdict"]]:
        raise AttestationError("contradiction", "The receipt has another result than its Statement.")
    return document


def _json(data: bytes, what: str) -> Any:
    try:
        return strict_json.read(data)
    except strict_json.NotJson as exc:
        raise AttestationError("not_json", f"{what} {exc}.") from exc


def _decode(text: str, what: str) -> bytes:
    """Base64 in the standard or the URL-safe alphabet, written the one way there is to write those bytes."""
    encode = base64.urlsafe_b64encode if set(text) & set("-_") else base64.b64encode
    try:
        found = base64.b64decode(text.translate(_STANDARD), validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if encode(found).decode() != text:
        raise AttestationError("wrong_shape", f"The envelope's {what} is not Base64.")
    return found


_STANDARD = str.maketrans("-_", "+/")


def _configuration(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Which rules, from which commit, in which image."""
    yield {"name": "base", "digest": {"gitCommit": document["base"]}}
    if document["config"] is not None:
        yield {"name": "config", "digest": {"gitCommit": document["config"]}}
    image = document["image"]
    if found := re.search(r"sha256:([0-9a-f]{64})\Z", image):
        yield {"name": "image", "digest": {"sha256": found[1]}}
    else:
        yield {"name": "image", "uri": f"image:{quote(image)}"}


def _tests(document: dict[str, Any]) -> dict[str, list[str]]:
    """The checks and those tests that the receipt names. A check that ended well is only said to have passed where
    the verdict believes it."""
    passed, warned, failed = [], [], []
    for check in document["checks"]:
        if check["exit_code"] != 0 or check["timed_out"]:
            failed.append(f"check: {check['name']}")
        elif document["verdict"] == "Unverified":
            warned.append(f"check: {check['name']}")
        else:
            passed.append(f"check: {check['name']}")
    named = {kind: [f"test: {name}" for name in found["names"]] for kind, found in document["tests"].items()}
    (warned if document["verdict"] == "Unverified" else passed).extend(named["fixed"])
    return {
        "passedTests": passed,
        "warnedTests": [*warned, *named["newly_skipped"], *named["gone"]],
        "failedTests": [*failed, *named["broken"], *named["still_failing"]],
    }


def _shown(text: str) -> str:
    """A stranger's text in a line of ours."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text[:100])
