"""Signed statements: checked by openssl and by hand, and refused when anything about them is not right."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.runtime.ledger.ledger import load_run
from pipelines.cli import main
from pipelines.provenance.envelope import PAYLOAD_TYPE, STATEMENT_TYPE, encoded, opened, sealed
from pipelines.provenance.keys import PASSPHRASE, private_key, public_key
from tests.pipelines.provenance.conftest import HOSTILE, Tiny, ed25519

STATEMENT = {"_type": STATEMENT_TYPE, "subject": [], "predicateType": "x", "predicate": {"text": HOSTILE}}


def test_the_encoding_is_that_of_the_dsse_specification() -> None:
    # the example of secure-systems-lab/dsse, protocol.md
    assert encoded("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


@pytest.fixture
def rebuilt(tiny: Tiny, tmp_path: Path, capsys) -> dict[str, Any]:
    """The envelope of a rebuild, as the file holds it."""
    key = ed25519(tmp_path / "key.pem")
    out = ["--store", str(tiny.folder), "--output", str(tmp_path / "out.json"), "--json"]
    assert main(["rebuild", tiny.run_id, "--without", "source:minus.jsonl", "--key", str(key), *out]) == 0
    capsys.readouterr()
    envelope: dict[str, Any] = json.loads((tmp_path / "out.json").read_text())
    return envelope


def test_openssl_verifies_it_and_its_form_is_in_totos(rebuilt: dict[str, Any], tmp_path: Path) -> None:
    """An independent check: the bytes that DSSE signs are put together here, and openssl alone verifies them."""
    assert set(rebuilt) == {"payload", "payloadType", "signatures"}
    assert rebuilt["payloadType"] == "application/vnd.in-toto+json"
    payload = base64.b64decode(rebuilt["payload"])
    kind = rebuilt["payloadType"].encode()
    (signature,) = rebuilt["signatures"]
    signed = b" ".join([b"DSSEv1", str(len(kind)).encode(), kind, str(len(payload)).encode(), payload])
    (tmp_path / "signed").write_bytes(signed)
    (tmp_path / "signature").write_bytes(base64.b64decode(signature["sig"]))
    check = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(tmp_path / "key.pub"), "-rawin"]
    check += ["-in", str(tmp_path / "signed"), "-sigfile", str(tmp_path / "signature")]
    if shutil.which("openssl"):
        assert subprocess.run(check, check=False, capture_output=True).returncode == 0
        (tmp_path / "signed").write_bytes(signed.replace(b"minus.jsonl", b"other.jsonl", 1))
        assert subprocess.run(check, check=False, capture_output=True).returncode != 0
    statement = json.loads(payload)
    assert set(statement) == {"_type", "subject", "predicateType", "predicate"}
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["subject"] and all(set(one) == {"name", "digest"} for one in statement["subject"])
    assert all(len(one["digest"]["sha256"]) == 64 for one in statement["subject"])


def test_the_command_verifies_it_against_the_store(rebuilt, tiny: Tiny, tmp_path: Path, capsys) -> None:
    check = ["statement", str(tmp_path / "out.json"), "--key", str(tmp_path / "key.pub"), "--store", str(tiny.folder)]
    assert main(check) == 0
    assert "signed by this key, and unchanged" in capsys.readouterr().out
    after = json.loads(base64.b64decode(rebuilt["payload"]))["predicate"]["runs"]["after"]["id"]
    model = load_run(tiny.store, after).stages["rl"]["outputs"]["model"]["digest"]
    place = tiny.folder / "objects" / model / "files" / "model.safetensors"
    place.parent.chmod(0o755)
    place.chmod(0o644)
    place.write_bytes(place.read_bytes()[:-1])
    assert main([*check, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["missing"] == [f"{after}:rl.model"]


def test_it_is_kept_in_the_store_as_well(rebuilt: dict[str, Any], tiny: Tiny) -> None:
    (key,) = tiny.store.keys("statements/")
    assert tiny.store.get(key) == rebuilt


@pytest.mark.parametrize("ssh", [False, True])
@pytest.mark.parametrize("passphrase", ["", "open sesame"])
def test_keys_in_either_format_with_and_without_a_passphrase(tmp_path, monkeypatch, ssh: bool, passphrase: str) -> None:
    if ssh and passphrase:
        pytest.importorskip("bcrypt", reason="OpenSSH's encryption of keys needs it")
    path = ed25519(tmp_path / "key.pem", passphrase, ssh=ssh)
    if passphrase:
        with pytest.raises(InputError, match=f"it is encrypted; set {PASSPHRASE}"):
            private_key(str(path))
        monkeypatch.setenv(PASSPHRASE, "wrong")
        with pytest.raises(InputError, match="is not its passphrase"):
            private_key(str(path))
    monkeypatch.setenv(PASSPHRASE, passphrase or "not needed")
    envelope = json.dumps(sealed(STATEMENT, private_key(str(path))))
    assert opened(envelope, public_key(str(path.with_suffix(".pub")))) == STATEMENT
    assert opened(envelope, public_key(str(path))) == STATEMENT


def test_an_unreadable_key_gets_one_line_before_anything_runs(tiny: Tiny, tmp_path: Path, capsys) -> None:
    garbage, other = tmp_path / "garbage.pem", tmp_path / "rsa.pem"
    garbage.write_bytes(b"\x00\xff" * 50)
    pem = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    other.write_bytes(rsa.generate_private_key(65537, 2048).private_bytes(*pem))
    (tmp_path / "big.pem").write_bytes(b"x" * 100_000)
    for name, told in (
        ("none.pem", "No such file or directory; make one by: openssl genpkey -algorithm ed25519 -out key.pem"),
        (".", "Is a directory"),
        ("garbage.pem", "no private key in PEM or OpenSSH format"),
        ("rsa.pem", "RSAPrivateKey is no ed25519 key"),
        ("big.pem", "no key has 100,000 bytes"),
    ):
        order = ["rebuild", tiny.run_id, "--without", "minus.jsonl", "--key", str(tmp_path / name)]
        assert main([*order, "--store", str(tiny.folder)]) == 2
        error = capsys.readouterr().err
        assert told in error and error.count("\n") == 1
    assert len([path for path in (tiny.folder / "ledger").iterdir() if path.is_dir()]) == 1


def _changed(envelope: dict[str, Any], **parts: Any) -> str:
    return json.dumps(envelope | parts)


def test_what_was_changed_or_signed_by_others_is_refused(tmp_path: Path) -> None:
    mine, other = (private_key(str(ed25519(tmp_path / name))) for name in ("a.pem", "b.pem"))
    envelope = sealed(STATEMENT, mine)
    key = mine.public_key()
    payload = base64.b64encode(base64.b64decode(envelope["payload"]) + b" ").decode()
    foreign = sealed({**STATEMENT, "_type": "https://in-toto.io/Statement/v0.1"}, mine)
    for text, told in (
        (json.dumps(sealed(STATEMENT, other)), "did not sign it"),
        (_changed(envelope, payload=payload), "did not sign it, or it was changed since"),
        (_changed(envelope, payloadType="text/plain"), "did not sign it"),
        (_changed(envelope, signatures=[]), "did not sign it"),
        (_changed(envelope, signatures=[{"sig": "!"}]), "no DSSE envelope"),
        (_changed(envelope, payload=7), "no DSSE envelope"),
        ("[]", "no DSSE envelope"),
        ("{", "no DSSE envelope"),
        ("[" * 100_000, "no DSSE envelope"),
        (json.dumps(foreign), "no in-toto statement of version 1"),
    ):
        with pytest.raises(InputError, match=told):
            opened(text, key)
    both = _changed(envelope, signatures=[*sealed(STATEMENT, other)["signatures"], *envelope["signatures"]])
    assert opened(both, key) == STATEMENT
    assert envelope["payloadType"] == PAYLOAD_TYPE


def test_a_signed_statement_of_another_kind_gets_one_line_and_hostile_text_is_spelled_out(tmp_path, capsys) -> None:
    key = ed25519(tmp_path / "key.pem")
    for kind, told in ((HOSTILE, "not of a removal"), ("urn:posttrain:removal:v1", "no statement of a removal")):
        envelope = sealed(STATEMENT | {"predicateType": kind}, private_key(str(key)))
        (tmp_path / "other.json").write_text(json.dumps(envelope))
        order = ["statement", str(tmp_path / "other.json"), "--key", str(key), "--store", str(tmp_path / "store")]
        assert main(order) == 2
        error = capsys.readouterr().err
        assert told in error and not {char for char in error[:-1] if not char.isprintable()}


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=4), st.integers(0, 10_000))
def test_a_flipped_bit_of_the_payload_is_always_noticed(predicate: dict[str, str], place: int) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    envelope = sealed(STATEMENT | {"predicate": predicate}, key)
    payload = bytearray(base64.b64decode(envelope["payload"]))
    payload[place % len(payload)] ^= 1 << place % 8
    with pytest.raises(InputError, match="did not sign it"):
        opened(_changed(envelope, payload=base64.b64encode(bytes(payload)).decode()), key.public_key())
