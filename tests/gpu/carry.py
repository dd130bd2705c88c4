"""Gather what a GPU machine without network may lack, as an importable folder: our few imports, and DeepSpeed.

    python -m tests.gpu.carry [--python 3.12] [--folder build/gpu-packages]

Versions are those of the lock. On the machine: PYTHONPATH=build/gpu-packages PYTHON=python3 make test-gpu
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from tests.gpu.steps import ROOT

LOCK = ROOT / "infra/requirements/stages.lock"
WHEELS = ("pydantic", "pydantic-core", "annotated-types", "typing-inspection", "croniter", "hjson")
"""What torch and transformers do not bring along."""
COPIED = ("deepspeed",)
"""Plain Python that is published as source alone: copied from this environment."""


def pinned(package: str) -> str:
    """Return a package with its version in the lock."""
    found = re.search(rf"^{re.escape(package)}==\S+", LOCK.read_text(), re.MULTILINE)
    if found is None:
        sys.exit(f"{package} is not in {LOCK.relative_to(ROOT)}")
    return found.group()


def copy_installed(package: str, folder: Path) -> None:
    """Copy an installed package's files, without what Python or a compiler made of them."""
    found = metadata.distribution(package)
    for path in found.files or ():
        source = Path(str(found.locate_file(path)))
        if ".." in path.parts or "__pycache__" in path.parts or not source.is_file():
            continue
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def main() -> None:
    """Make the folder anew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="3.12", help="version of the machine's Python")
    parser.add_argument("--folder", type=Path, default=Path("build/gpu-packages"))
    arguments = parser.parse_args()
    shutil.rmtree(arguments.folder, ignore_errors=True)
    wanted = [pinned(package) for package in WHEELS]
    options = ["--no-deps", "--only-binary=:all:", "--python-version", arguments.python, "--no-compile", "-q"]
    options += ["--disable-pip-version-check", "--target", str(arguments.folder)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, *wanted], check=True)
    for package in COPIED:
        copy_installed(package, arguments.folder)
    size = sum(path.stat().st_size for path in arguments.folder.rglob("*") if path.is_file())
    print(f"{arguments.folder}: {', '.join(wanted)}, {', '.join(COPIED)}; {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
