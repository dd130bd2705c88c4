"""The example of an image of one's own: what its Dockerfile says, and its pip command with a lock of the test's own."""

from __future__ import annotations

import hashlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.operator_packages.wheels import build_wheel

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "infra" / "images" / "derived"
TEXT = (FOLDER / "Dockerfile").read_text()


def instructions() -> list[str]:
    """Return the Dockerfile's instructions, each in one line, without comments."""
    lines = "\n".join(line for line in TEXT.splitlines() if not line.startswith("#"))
    return [line.strip() for line in re.sub(r"\\\n\s*", " ", lines).splitlines() if line.strip()]


def install(folder: Path, lock: str) -> subprocess.CompletedProcess[str]:
    """Run the Dockerfile's pip command with a lock, on wheels of this machine alone."""
    (run,) = [line for line in instructions() if line.startswith("RUN")]
    command = run[run.index("python3 -m pip install") : run.index("&& python3 -m compileall")]
    (folder / "requirements.lock").write_text(lock)
    words = shlex.split(command.replace("/requirements.lock", str(folder / "requirements.lock")))
    words = [str(folder / "own") if word == "/opt/own" else word for word in words]
    more = ["--no-index", "--find-links", str(folder / "wheels")]
    return subprocess.run([sys.executable, *words[1:], *more], capture_output=True, text=True, timeout=300)


def test_it_starts_from_an_image_by_digest_and_leaves_its_user_and_entry_point() -> None:
    kinds = [line.split()[0] for line in instructions()]
    assert kinds == ["ARG", "ARG", "FROM", "COPY", "RUN", "FROM", "COPY", "COPY"]
    base = (ROOT / "infra" / "images" / "Dockerfile").read_text()
    (pinned,) = re.findall(r"^ARG BASE_IMAGE=(\S+@sha256:[0-9a-f]{64})$", TEXT, re.MULTILINE)
    assert pinned in base, "the same Python as in posttrain's image"
    assert instructions()[0] == "ARG POSTTRAIN_IMAGE", "no default: a tag would be another image tomorrow"


def test_a_lock_is_installed_by_its_hashes_behind_posttrains_packages(tmp_path: Path) -> None:
    module = "own_rules"
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode:
        pytest.skip("no pip here")
    path = build_wheel(tmp_path / "wheels", module, {f"{module}.py": "X = 1\n", "pydantic.py": "raise ImportError\n"})
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    wrong = install(tmp_path, f"{module}==1.0 --hash=sha256:{'0' * 64}\n")
    assert wrong.returncode and "DO NOT MATCH THE HASHES" in wrong.stderr
    assert install(tmp_path, f"{module}==1.0\n").returncode, "a requirement without a hash is refused"
    done = install(tmp_path, f"{module}==1.0 --hash=sha256:{right}\n")
    assert done.returncode == 0, done.stderr

    path_file = (FOLDER / "own.pth").read_text().replace("/opt/own", str(tmp_path / "own"))
    site = tmp_path / "site"
    site.mkdir()
    (site / "own.pth").write_text(path_file)
    (site / "pydantic.py").write_text("OF = 'the image'\n")
    code = f"import site; site.addsitedir({str(site)!r}); import pydantic, {module}; print(pydantic.OF, {module}.X)"
    said = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert said.stdout.split() == ["the", "image", "1"], said.stderr
