"""The bill of materials names every package of an image's lock, in the form that scanners read, and nothing of here."""

from __future__ import annotations

import getpass
import json
import re
import socket
import subprocess
from pathlib import Path

import pytest

from tests.infra.conftest import INFRA

ROOT = INFRA.parent


@pytest.mark.skipif(not (ROOT / ".venv-sbom" / ".installed").exists(), reason="not installed here: make sbom")
def test_the_bill_of_materials_is_the_lock(tmp_path: Path) -> None:
    command = ["make", "--silent", "sbom", "SBOM_LOCKS=stages", f"SBOM_FOLDER={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=300)
    path = tmp_path / "stages.cdx.json"
    assert done.stdout == f"{path}\n"
    text = path.read_text()
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert (bill["metadata"]["component"]["name"], bill["metadata"]["component"]["version"]) == _project()
    pins = _pins(INFRA / "requirements" / "stages.lock")
    assert len(pins) > 100
    assert {part["purl"] for part in bill["components"]} == {f"pkg:pypi/{name}@{version}" for name, version in pins}
    # the same lock gives the same bytes on every machine
    assert "serialNumber" not in bill
    assert "timestamp" not in bill["metadata"]
    assert not [
        word for word in (str(ROOT), str(tmp_path), socket.gethostname(), f"/{getpass.getuser()}") if word in text
    ]


def _project() -> tuple[str, str]:
    text = (ROOT / "pyproject.toml").read_text()
    name, version = (re.search(rf'^{key} = "(.*)"', text, re.MULTILINE) for key in ("name", "version"))
    assert name and version
    return name[1], version[1]


def _pins(lock: Path) -> set[tuple[str, str]]:
    lines = lock.read_text().splitlines()
    return {(name, version) for name, _, version in (line.partition("==") for line in lines) if version}
