"""The signed form of a receipt: what its Statement says, and that nothing of it can be changed unseen."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from bot.domain import attestation, receipt_schema
from bot.domain.attestation import AttestationError, Signer
from bot.domain.strict_json import SIZE_LIMIT

TREE, BASE, COMMIT, CONFIG = "7" * 40, "b" * 40, "c" * 40, "d" * 40
NONE: dict[str, Any] = {"count": 0, "names": []}
CHECK: dict[str, Any] = {
    "name": "tests",
    "command": "pytest -q",
    "exit_code": 0,
    "timed_out": False,
    "seconds": 1.25,
    "passed": 12,
    "failed": 0,
    "skipped": 0,
    "runner": "pytest",
}
PLACE = {"provider": "docker", "id": "v"}
DOCUMENT: dict[str, Any] = {
    "version": 2,
    "verdict": "Passed",
    "draft": False,
    "reasons": ["12 tests passed. Enough??? ~~~"],
    "repository": "octo/sample",
    "base": BASE,
    "tree": TREE,
    "commit": COMMIT,
    "config": CONFIG,
    "image": f"sha256:{'1' * 64}",
    "sandbox": {"provider": "docker", "id": "w"},
    "verification_sandbox": PLACE,
    "snapshot": None,
    "checks": [CHECK],
    "runs": [
        {"kind": "candidate", "tree": TREE, "sandbox": PLACE, "cached": False, "canaries": "seen", "checks": [CHECK]}
    ],
    "tests": {
        "fixed": {"count": 1, "names": ["test_a.py::test_it"]},
        "broken": NONE,
        "still_failing": NONE,
        "newly_skipped": NONE,
        "gone": NONE,
        "added": NONE,
    },
    "flags": [{"kind": "decider", "path": "a.ini", "line": None, "grave": False, "text": "`a.ini`: is new"}],
    "findings": [],
    "coverage": {"report": "coverage.xml", "lines": 4, "covered": 3, "missed": [{"path": "a.py", "lines": [7]}]},
    "policy": {"repeat": 1, "tests": None, "weakened": "refuse", "unverified": "comment"},
    "spend": {"steps": 3, "tool_calls": 5, "tokens": 1200, "cost_usd": 0.25},
    "model": "scripted",
    "cost_usd": 0.25,
    "created_at": "2026-01-01T00:00:00+00:00",
    "bot": "0.1.0",
}
A, B = "ed25519:" + "a" * 32, "ed25519:" + "b" * 32


def signs(key: bytes) -> attestation.Verify:
    return lambda signature, message: hmac.compare_digest(signature, make(key, message))


def make(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha512")


KEYS = {A: signs(b"a"), B: signs(b"b")}


def signed(document: dict[str, Any] = DOCUMENT, name: str = A, key: bytes = b"a") -> dict[str, Any]:
    return Signer(keyid=name, make=lambda message: make(key, message)).sign(document)


def sealed(payload: bytes, kind: str = attestation.PAYLOAD_TYPE) -> dict[str, Any]:
    """An envelope that is rightly signed, whatever is in it."""
    return {
        **attestation.envelope(payload, {A: make(b"a", attestation.pae(kind, payload))}),
        "payloadType": kind,
    }


def statement(**changes: Any) -> dict[str, Any]:
    return {**attestation.statement(DOCUMENT), **changes}


def written(envelope: Any) -> bytes:
    return json.dumps(envelope, separators=(",", ":")).encode()


def refused(data: bytes) -> tuple[str, str]:
    with pytest.raises(AttestationError) as caught:
        attestation.open(data, KEYS)
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) < 300
    return caught.value.reason, said


def test_a_statement_is_about_the_tree_and_the_commit_and_says_what_passed() -> None:
    assert attestation.statement(DOCUMENT, origin="https://github.com") == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "git+https://github.com/octo/sample", "digest": {"gitTree": TREE, "gitCommit": COMMIT}}],
        "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
        "predicate": {
            "result": "PASSED",
            "configuration": [
                {"name": "base", "digest": {"gitCommit": BASE}},
                {"name": "config", "digest": {"gitCommit": CONFIG}},
                {"name": "image", "digest": {"sha256": "1" * 64}},
            ],
            "passedTests": ["check: tests", "test: test_a.py::test_it"],
            "warnedTests": [],
            "failedTests": [],
            "coderBotReceipt": DOCUMENT,
        },
    }


def test_what_is_not_known_is_left_out_of_a_statement() -> None:
    made = attestation.statement({**DOCUMENT, "commit": None, "config": None, "image": "my image:1"})
    assert made["subject"] == [{"name": "octo/sample", "digest": {"gitTree": TREE}}]
    assert made["predicate"]["configuration"] == [
        {"name": "base", "digest": {"gitCommit": BASE}},
        {"name": "image", "uri": "image:my%20image%3A1"},
    ]


FAILED = {**CHECK, "name": "lint", "exit_code": 1}
LATE = {**CHECK, "name": "slow", "timed_out": True}
SETS = {name: {"count": 1, "names": [name]} for name in DOCUMENT["tests"]}


@pytest.mark.parametrize(
    ("verdict", "result", "passed", "warned"),
    [
        ("Passed", "PASSED", ["check: tests", "test: fixed"], []),
        ("Failed", "FAILED", ["check: tests", "test: fixed"], []),
        ("Unverified", "WARNED", [], ["check: tests", "test: fixed"]),
    ],
)
def test_nothing_is_said_to_have_passed_that_the_verdict_does_not_believe(
    verdict: str, result: str, passed: list[str], warned: list[str]
) -> None:
    document = {**DOCUMENT, "verdict": verdict, "checks": [CHECK, FAILED, LATE], "tests": SETS}
    predicate = attestation.statement(document)["predicate"]
    assert predicate["result"] == result
    assert predicate["passedTests"] == passed
    assert predicate["warnedTests"] == [*warned, "test: newly_skipped", "test: gone"]
    assert predicate["failedTests"] == ["check: lint", "check: slow", "test: broken", "test: still_failing"]


def test_what_is_signed_is_encoded_as_dsse_says() -> None:
    # The example of https://github.com/secure-systems-lab/dsse/blob/master/protocol.md
    assert attestation.pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    assert attestation.pae("é", b"\0 \xff") == b"DSSEv1 2 \xc3\xa9 3 \0 \xff"


def test_a_signed_receipt_opens_to_the_same_document() -> None:
    opened = attestation.open(written(signed()), KEYS)
    assert (opened.document, opened.keyids) == (DOCUMENT, (A,))
    assert signed() == signed()
    local = {**DOCUMENT, "commit": None, "repository": "sample"}
    assert attestation.open(written(signed(local)), KEYS).document == local
    named = Signer(keyid=A, make=lambda message: make(b"a", message), origin="https://github.example")
    assert attestation.open(written(named.sign(DOCUMENT)), KEYS).document == DOCUMENT
    assert attestation.keyid(b"\0" * 32) == "ed25519:66687aadf862bd776c8fc18b8e9f8e20"


ENVELOPE = written(signed())


def replaced(position: int, byte: int) -> bytes:
    return ENVELOPE[:position] + bytes([byte]) + ENVELOPE[position + 1 :]


def test_each_byte_of_payload_signature_and_key_id_counts() -> None:
    inside = range(len(ENVELOPE))
    assert len(inside) > 3000
    # The next one of Base64's alphabet: beside the padding, that differs only in bits which are thrown away.
    following = dict(zip(ALPHABET, ALPHABET[1:] + ALPHABET[:1], strict=True))
    opened = [at for at in inside if not _is_refused(replaced(at, following.get(ENVELOPE[at], ENVELOPE[at] ^ 1)))]
    assert opened == []


@given(position=st.integers(0, len(ENVELOPE) - 1), byte=st.integers(0, 255))
@example(position=ENVELOPE.index(b"="), byte=ord("A"))
def test_no_byte_can_be_another(position: int, byte: int) -> None:
    changed = replaced(position, byte)
    assume(changed.translate(URL_SAFE) != ENVELOPE.translate(URL_SAFE))  # the same bytes in the other alphabet
    assert _is_refused(changed)


ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
URL_SAFE = bytes.maketrans(b"+/", b"-_")


def _is_refused(data: bytes) -> bool:
    try:
        attestation.open(data, KEYS)
    except AttestationError:
        return True
    return False


def test_a_receipt_that_was_changed_or_comes_from_elsewhere_is_told_apart() -> None:
    other = written(signed({**DOCUMENT, "tree": "8" * 40}))
    envelope = {**json.loads(other), "signatures": signed()["signatures"]}
    assert refused(written(envelope)) == (
        "bad_signature",
        f"The signature of {A} does not fit: the receipt was changed after it was signed.",
    )
    assert refused(written(signed(name="ed25519:\x1b[31m\n" + "x" * 500)))[0] == "unknown_key"
    assert "\x1b" not in refused(written(signed(name="ed25519:\x1b[31m")))[1]
    assert refused(written(signed(key=b"other")))[0] == "bad_signature"
    assert refused(written(signed(name=B)))[0] == "bad_signature"


def test_other_signatures_are_passed_over_but_a_known_key_has_to_be_right() -> None:
    good, unknown = signed(), signed(name="theirs", key=b"x")
    [mine], [theirs], [second] = good["signatures"], unknown["signatures"], signed(name=B, key=b"b")["signatures"]
    bad = {**second, "sig": mine["sig"]}
    assert attestation.open(written({**good, "signatures": [theirs, mine]}), KEYS).keyids == (A,)
    assert attestation.open(written({**good, "signatures": [second, mine, mine]}), KEYS).keyids == (B, A)
    assert refused(written({**good, "signatures": [mine, bad]}))[0] == "bad_signature"
    assert refused(written({**good, "signatures": [theirs]}))[0] == "unknown_key"
    assert refused(written({**good, "signatures": [mine] * 17})) == (
        "wrong_shape",
        "The envelope has 17 signatures; 1 to 16 do.",
    )


def test_fields_that_nobody_here_knows_are_passed_over() -> None:
    made = statement()
    made["subject"][0]["uri"] = "x"
    made["predicate"]["url"] = "https://example.com"
    made["predicate"]["coderBotReceipt"] = {**DOCUMENT, "more": True}
    envelope = {**sealed(attestation.canonical({**made, "more": 1})), "more": 1}
    assert attestation.open(written(envelope), KEYS).document["more"] is True


def test_base64_is_taken_in_both_alphabets_and_in_no_other_way() -> None:
    good = signed()
    payload = good["payload"]
    assert {"+", "/"} < set(payload)
    assert payload.endswith("=")
    safe = base64.urlsafe_b64encode(base64.b64decode(payload)).decode()
    assert attestation.open(written({**good, "payload": safe}), KEYS).document == DOCUMENT
    mixed = payload.replace("/", "_")
    wrong = (mixed, payload.rstrip("="), payload + "=", payload + "\n", " " + payload, "é", payload[:-2] + "/=", "A")
    for text in wrong:
        assert refused(written({**good, "payload": text})) == ("wrong_shape", "The envelope's payload is not Base64.")
    [signature] = good["signatures"]
    short = [{**signature, "sig": signature["sig"][:-1]}]
    assert refused(written({**good, "signatures": short}))[1] == "The envelope's signature is not Base64."


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not_json"),
        (b"\xff\xfe", "not_json"),
        (b'{"payload": "", "payload": "", "payloadType": "", "signatures": []}', "not_json"),
        (b"[" * 100_000, "not_json"),
        (b" " * (SIZE_LIMIT + 1), "not_json"),
        (b"[]", "wrong_shape"),
        (b"null", "wrong_shape"),
        (written(DOCUMENT), "wrong_shape"),
        (written({**signed(), "payload": 1}), "wrong_shape"),
        (written({**signed(), "signatures": []}), "wrong_shape"),
        (written({**signed(), "signatures": [{"sig": "AAAA"}]}), "wrong_shape"),
        (written({**signed(), "signatures": ["x"]}), "wrong_shape"),
        (written({**signed(), "payloadType": "application/json"}), "wrong_type"),
        (written(sealed(b"{}", "application/json")), "wrong_type"),
        (written(sealed(b"")), "not_json"),
        (written(sealed(b'{"a": 1, "a": 1}')), "not_json"),
        (written(sealed(b"[]")), "wrong_shape"),
        (written(sealed(attestation.canonical(statement(subject=[])))), "wrong_shape"),
        (written(sealed(attestation.canonical(statement(predicate={"result": "PASSED"})))), "wrong_shape"),
        (
            written(sealed(attestation.canonical(statement(predicateType="https://slsa.dev/provenance/v1")))),
            "wrong_type",
        ),
        (written(sealed(attestation.canonical(statement(_type="https://in-toto.io/Statement/v0.1")))), "wrong_type"),
    ],
    ids=range(21),
)
def test_files_that_are_no_receipts_are_refused_with_one_line(data: bytes, reason: str) -> None:
    assert refused(data)[0] == reason


def test_a_receipt_without_its_envelope_is_said_to_be_unsigned() -> None:
    assert refused(written(DOCUMENT))[1] == "The receipt is not signed: it stands there without its envelope."


def _with(document: dict[str, Any]) -> bytes:
    """Rightly signed, and the document another than the Statement around it."""
    made = statement()
    return written(
        sealed(attestation.canonical({**made, "predicate": {**made["predicate"], "coderBotReceipt": document}}))
    )


@pytest.mark.parametrize(
    ("change", "reason", "said"),
    [
        ({"tree": "8" * 40}, "contradiction", "The receipt is for another tree or commit than its Statement."),
        ({"commit": "8" * 40}, "contradiction", "The receipt is for another tree or commit than its Statement."),
        ({"commit": None}, "contradiction", "The receipt is for another tree or commit than its Statement."),
        ({"repository": "octo/other"}, "contradiction", "The receipt is for another repository than its Statement."),
        ({"verdict": "Failed"}, "contradiction", "The receipt has another result than its Statement."),
        ({"version": 3}, "wrong_shape", "The receipt is not of version 2, the one known here."),
        (
            {"tree": f"{TREE}\n"},
            "wrong_shape",
            "The receipt does not fit its schema: `$.tree` breaks its rule `pattern`.",
        ),
        ({"tree": TREE.upper().replace("7", "A")}, "wrong_shape", None),
        ({"checks": [{}]}, "wrong_shape", None),
        ({"draft": 1}, "wrong_shape", "The receipt does not fit its schema: `$.draft` breaks its rule `type`."),
    ],
    ids=range(10),
)
def test_a_signer_who_contradicts_itself_proves_nothing(
    change: dict[str, Any], reason: str, said: str | None
) -> None:
    told = refused(_with({**DOCUMENT, **change}))
    assert told[0] == reason
    assert said is None or told[1] == said


def test_every_field_is_required_by_the_schema() -> None:
    assert receipt_schema.problem(DOCUMENT) is None
    for name in DOCUMENT:
        without = {key: value for key, value in DOCUMENT.items() if key != name}
        assert receipt_schema.problem(without) == "`$` breaks its rule `required`"
