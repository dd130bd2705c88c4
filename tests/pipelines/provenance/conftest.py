"""One run of the tiny recipe, made once for all tests of a process; tests that write take a copy of its store."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from components.runtime.store import Store, open_store
from pipelines.cli import main

HOSTILE = "\x1b[2J<script>alert(1)</script> [bold]\u202eevil[/bold]"
"""A prompt that would clear a terminal, run on a page, be markup, and turn its text around."""


@dataclass(frozen=True)
class Tiny:
    """The recipe, and a store with a finished run of it."""

    recipe: Path
    folder: Path
    run_id: str

    @property
    def store(self) -> Store:
        """Return the store."""
        return open_store(str(self.folder))


@pytest.fixture(scope="session")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Run the recipe."""
    home = tmp_path_factory.mktemp("provenance")
    recipe = home / "tiny.yaml"
    shutil.copyfile(Path(__file__).with_name("tiny.yaml"), recipe)
    for name, sign in (("plus", 1), ("minus", -1)):
        pairs = [(a, b) for a in range(4) for b in range(5)]
        rows = [{"prompt": f"{name} {a} and {b}", "answer": str(a + sign * b)} for a, b in pairs]
        rows += [{"prompt": f"{name} {HOSTILE}", "answer": "7"}]
        (home / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POSTTRAIN_LINEAGE", "later")
        assert main(["run", str(recipe), "--store", str(home / "store"), "--json"]) == 0
    (run_id,) = (path.name for path in (home / "store" / "ledger").iterdir() if path.is_dir())
    return Tiny(recipe, home / "store", run_id)


@pytest.fixture
def tiny(first_run: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tiny:
    """Return a copy of the run's store, of the test's own."""
    monkeypatch.setenv("POSTTRAIN_LINEAGE", "later")
    shutil.copytree(first_run.folder, tmp_path / "store", symlinks=True)
    return Tiny(first_run.recipe, tmp_path / "store", first_run.run_id)


def ed25519(path: Path, passphrase: str = "", *, ssh: bool = False) -> Path:
    """Write a new private key, and its public one beside it as .pub."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    locked = form.BestAvailableEncryption(passphrase.encode()) if passphrase else form.NoEncryption()
    private = form.PrivateFormat.OpenSSH if ssh else form.PrivateFormat.PKCS8
    public = form.PublicFormat.OpenSSH if ssh else form.PublicFormat.SubjectPublicKeyInfo
    path.write_bytes(key.private_bytes(form.Encoding.PEM, private, locked))
    encoding = form.Encoding.OpenSSH if ssh else form.Encoding.PEM
    path.with_suffix(".pub").write_bytes(key.public_key().public_bytes(encoding, public))
    return path
