"""Write <name>.lock for an environment that cannot be installed on this machine, such as the one for CUDA.

Usage: python resolve.py gpu        write gpu.lock
       python resolve.py --check gpu    only see that the lock still resolves

Nothing is installed: pip resolves <name>.in together with stages.in, at the versions of stages.lock for all that
<name>.in does not name itself. PyTorch must come from an index with its CUDA build, so pip's settings of this user
and shell are left out; those of the machine (a certificate authority) hold. Takes about a minute.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from lock import FOLDER, read
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

BASE = "stages"


def resolve(arguments: list[str]) -> dict[str, str]:
    """Return canonical name -> version of what pip would install; ends the program with pip's words if it cannot."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [sys.executable, "-m", "pip", "--isolated", "install", "--quiet", "--dry-run", "--ignore-installed"]
        done = subprocess.run([*command, "--report", report.name, *arguments], check=False)
        if done.returncode:
            sys.exit(done.returncode)
        found = json.loads(Path(report.name).read_text())["install"]
    return {canonicalize_name(one["metadata"]["name"]): one["metadata"]["version"] for one in found}


def constraints(lines: list[str]) -> str:
    """Return the pins of the base lock, without what `lines` name themselves."""
    own = {canonicalize_name(Requirement(line).name) for line in lines}
    pins = (FOLDER / f"{BASE}.lock").read_text().splitlines()
    return "\n".join(pin for pin in pins if canonicalize_name(pin.partition("==")[0]) not in own)


def write(name: str) -> None:
    """Resolve an .in file and write its lock."""
    lines = read(name)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as pins:
        pins.write(constraints(lines))
        pins.flush()
        found = resolve(["-c", pins.name, "-r", str(FOLDER / f"{BASE}.in"), "-r", str(FOLDER / f"{name}.in")])
    if "+" in found["torch"]:
        sys.exit(f"torch {found['torch']} is not the build for CUDA: another index came first")
    header = f"# Written by infra/requirements/resolve.py from {BASE}.in and {name}.in; do not edit.\n"
    packages = [f"{package}=={version}" for package, version in sorted(found.items())]
    (FOLDER / f"{name}.lock").write_text(header + "\n".join(packages) + "\n")
    print(f"{name}.lock: {len(packages)} packages")


def check(name: str) -> None:
    """See that a lock resolves, to itself."""
    pins = dict(line.split("==") for line in (FOLDER / f"{name}.lock").read_text().splitlines() if line[0] != "#")
    found = resolve(["-r", str(FOLDER / f"{name}.lock")])
    moved = sorted(name for name in pins.keys() | found.keys() if pins.get(name) != found.get(name))
    if moved:
        sys.exit(f"{name}.lock is not the whole of what it installs: {', '.join(moved)}")
    print(f"{name}.lock resolves: {len(found)} packages")


if __name__ == "__main__":
    only_check = "--check" in sys.argv
    for argument in sys.argv[1:]:
        if not argument.startswith("-"):
            check(argument) if only_check else write(argument)
