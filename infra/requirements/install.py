"""Install a lock into the environment of this Python, showing progress: python install.py NAME [PIP'S ARGUMENTS]

On a Linux machine without an NVIDIA GPU, PyTorch comes as its CPU build where the index of these builds answers within
a few seconds (TORCH_INDEX names another index, or none if empty). Standard library only.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections import deque
from pathlib import Path
from threading import Event, Thread

HERE = Path(__file__).resolve().parent
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
ANSWER_SECONDS = 5.0
PIP = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)
TAKEN = re.compile(r"^(?:Collecting|Processing|Requirement already satisfied:) (\S+)")
DOWNLOADED = re.compile(r"^\s*Downloading (\S+) \((.+)\)")
LAST_LINES = 30
CUDA_DISK = "with CUDA's libraries about 3 GB to download and 5.7 GB on disk"


class Progress:
    """How far an installation is: one line that is rewritten on a terminal, and a line every ten seconds elsewhere."""

    def __init__(self, total: int) -> None:
        self._total, self._taken, self._now = total, 0, ""
        self._site = Path(sysconfig.get_path("purelib"))
        self._installs, self._before = 0, 0
        self._began, self._shown = time.monotonic(), 0.0
        self._live = sys.stdout.isatty()

    def read(self, line: str) -> None:
        """Take one line of pip's output."""
        if match := TAKEN.match(line):
            self._taken += 1
            self._now = Path(match[1]).name
        elif match := DOWNLOADED.match(line):
            self._now = f"{Path(match[1]).name}, {match[2]}"
        elif line.startswith("Installing collected packages:"):
            self._installs, self._before = line.count(",") + 1, self._packages()

    def show(self) -> None:
        """Print where it is, if there is something to say and it is time."""
        now = time.monotonic()
        if now - self._shown < (0.2 if self._live else 10.0):
            return
        self._shown = now
        if self._installs:
            text = f"installing {min(self._packages() - self._before, self._installs)} of {self._installs} packages"
        else:
            text = f"{min(self._taken, self._total)} of {self._total} packages found or downloaded; {self._now}"
        text = f"  {now - self._began:4.0f} s  {text}"[:110]
        print(f"\r{text:<110}" if self._live else text, end="" if self._live else "\n", flush=True)

    def end(self) -> None:
        """Leave the line."""
        if self._live:
            print(f"\r{'':<110}\r", end="", flush=True)

    def _packages(self) -> int:
        return sum(1 for _ in self._site.glob("*.dist-info"))


def torch_arguments(lock: str) -> list[str]:
    """Return pip's further arguments for the PyTorch of a lock; print which build it will be, and how large it is."""
    version = dict(PIN.findall(lock)).get("torch")
    if version is None or sys.platform != "linux" or Path("/proc/driver/nvidia").exists():
        return []
    index = os.environ.get("TORCH_INDEX", TORCH_CPU_INDEX)
    more = ["--extra-index-url", index] if index and _answers(f"{index}/torch/") else []
    url = _wheel(version, more)
    if url is None:  # pip says why, at the installation itself
        return more
    if "%2Bcpu" in url or "+cpu" in url:
        print(f"PyTorch {version}: the CPU build, since there is no NVIDIA GPU here{_size(url)}", flush=True)
    elif platform.machine() == "x86_64":
        why = (
            "" if more else "; the index of CPU builds did not answer, see TORCH_INDEX in infra/requirements/install.py"
        )
        print(f"PyTorch {version}: the build for GPUs{_size(url)}, {CUDA_DISK}{why}", flush=True)
    return more


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=ANSWER_SECONDS):
            return True
    except (OSError, ValueError):
        return False


def _wheel(version: str, more: list[str]) -> str | None:
    """Return the address of the wheel that pip would take; it reads metadata, not the wheel."""
    command = [*PIP, "-q", "--dry-run", "--no-deps", "--ignore-installed", "--report", "-", *more, f"torch=={version}"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        (package,) = json.loads(answer.stdout)["install"]
        return str(package["download_info"]["url"])
    except (ValueError, KeyError):
        return None


def _size(url: str) -> str:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=ANSWER_SECONDS) as answer:
            size = int(answer.headers["Content-Length"])
    except (OSError, ValueError, TypeError):
        return ""
    return f", {size / 1e6:,.0f} MB"


def install(name: str, more: list[str]) -> int:
    """Install the lock of that name; return pip's exit code, after its last lines if it failed."""
    path = HERE / f"{name}.lock"
    lock = path.read_text(encoding="utf-8")
    total = len(PIN.findall(lock))
    print(
        f"installing the {total} pinned packages of infra/requirements/{path.name} (minutes the first time)", flush=True
    )
    command = [*PIP, "--progress-bar", "off", *torch_arguments(lock), *more, "-r", str(path)]
    progress, last, ended = Progress(total), deque[str](maxlen=LAST_LINES), Event()

    def tell() -> None:
        while not ended.wait(0.2):
            progress.show()

    teller = Thread(target=tell, daemon=True)
    teller.start()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            progress.read(line)
            if not line.startswith("WARNING: Location"):
                last.append(line)
    ended.set()
    teller.join()
    progress.end()
    if pip.returncode:
        sys.stderr.writelines(last)
    return pip.returncode


if __name__ == "__main__":
    if len(sys.argv) < 2 or not (HERE / f"{sys.argv[1]}.lock").is_file():
        sys.exit("usage: python install.py NAME [PIP'S ARGUMENTS], with a NAME.lock beside this file")
    sys.exit(install(sys.argv[1], sys.argv[2:]))
