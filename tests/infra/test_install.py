"""Installing a lock: progress, the PyTorch that is chosen, and what is said where pip fails."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REQUIREMENTS = Path(__file__).resolve().parents[2] / "infra/requirements"


def make_wheel(folder: Path, name: str, version: str) -> None:
    """Write the smallest wheel that pip installs."""
    files = {
        f"{name}.py": "",
        f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{name}-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        record = ""
        for path, text in files.items():
            wheel.writestr(path, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(text)}\n"
        wheel.writestr(f"{name}-{version}.dist-info/RECORD", f"{record}{name}-{version}.dist-info/RECORD,,\n")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installer, locks, wheels, and an environment of its own with this machine's pip."""
    folder = tmp_path_factory.mktemp("install")
    shutil.copy(REQUIREMENTS / "install.py", folder)
    wheels = folder / "wheels"
    wheels.mkdir()
    for name, version in (("torch", "2.13.0"), ("torch", "2.13.0+cpu"), ("leaf", "1.0"), ("twig", "2.0")):
        make_wheel(wheels, name, version)
    (folder / "right.lock").write_text("leaf==1.0\ntorch==2.13.0\ntwig==2.0\n")
    (folder / "wrong.lock").write_text("leaf==1.0\nbranch==3.0\n")
    return folder


def run(place: Path, target: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the installer into a folder; nothing but the wheels is looked at."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PIP_")}
    environment |= {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(place / "wheels"),
        "TORCH_INDEX": "",
    }
    command = [sys.executable, "install.py", *arguments, "--target", str(target)]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="the choice is for machines without an NVIDIA GPU")
def test_a_lock_is_installed_and_the_build_of_torch_named(place: Path, tmp_path: Path) -> None:
    done = run(place, tmp_path, "right")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == [
        "installing the 3 pinned packages of infra/requirements/right.lock (minutes the first time)",
        "PyTorch 2.13.0: the CPU build, since there is no NVIDIA GPU here, 0 MB",
    ]
    installed = {folder.name for folder in tmp_path.glob("*.dist-info")}
    assert installed == {"leaf-1.0.dist-info", "torch-2.13.0+cpu.dist-info", "twig-2.0.dist-info"}


def test_what_pip_said_last_is_shown_where_it_fails(place: Path, tmp_path: Path) -> None:
    done = run(place, tmp_path, "wrong")
    assert done.returncode != 0
    assert "No matching distribution found for branch==3.0" in done.stderr
    assert not list(tmp_path.iterdir())


def test_progress_counts_packages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(REQUIREMENTS))
    import install

    progress = install.Progress(3)
    progress.read("Collecting leaf==1.0 (from -r right.lock (line 1))\n")
    progress.read("  Downloading leaf-1.0-py3-none-any.whl (12 kB)\n")
    progress.show()
    assert (
        capsys.readouterr()
        .out.strip()
        .endswith("1 of 3 packages found or downloaded; leaf-1.0-py3-none-any.whl, 12 kB")
    )
    progress.show()
    assert capsys.readouterr().out == "", "a log gets a line every ten seconds, not one for each package"
