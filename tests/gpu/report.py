"""What a node has, and one report of all that was run on it."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.gpu.device import cpu_name
from tests.gpu.outcome import Outcome

TABLE = "| step | verdict | seconds | what | said |\n| --- | --- | --- | --- | --- |"
SECONDS = 20
QUERY = "name,uuid,memory.total,driver_version,compute_mode,mig.mode.current"


def look_around() -> dict[str, str]:
    """Return what matters of a node, as text: what is missing says so."""
    shared = shutil.disk_usage("/dev/shm") if Path("/dev/shm").is_dir() else None
    fabric = Path("/sys/class/infiniband")
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return {
        "cpu": f"{cpu_name()}, {os.cpu_count()} cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "gpus": said(["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader"]),
        "links": said(["nvidia-smi", "topo", "-m"]),
        "/dev/shm": f"{shared.total / 2**30:.0f} GiB, {shared.free / 2**30:.0f} free" if shared else "missing",
        "disk": f"{shutil.disk_usage('.').free / 2**30:.0f} GiB free",
        "fabric": ", ".join(sorted(path.name for path in fabric.iterdir())) if fabric.is_dir() else "no RDMA device",
        "memory lock": "unlimited" if locked == resource.RLIM_INFINITY else f"{locked / 2**20:.0f} MiB",
        "nvcc": said(["nvcc", "--version"]).splitlines()[-1],
        "sandbox": shutil.which("bwrap") or "no bubblewrap: Landlock has to do",
    }


def said(command: Sequence[str]) -> str:
    """Return what a command prints, or why it prints nothing."""
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not installed"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    return (done.stdout or done.stderr).strip() or f"{command[0]} says nothing"


def write_report(
    folder: Path, where: Mapping[str, Any], seen: Mapping[str, str], outcomes: Sequence[tuple[str, Outcome]]
) -> Path:
    """Write report.md and return its path."""
    parts = [f"# {where['device']}", "" if where["is_gpu"] else "**A rehearsal on a CPU: no figure is one of a GPU.**"]
    parts += ["## Versions", "\n".join(f"- {name}: {value}" for name, value in where.items())]
    parts += ["## Node", *(_seen(name, text) for name, text in seen.items())]
    parts += ["## Steps", "\n".join([TABLE, *(row(kind, outcome) for kind, outcome in outcomes)])]
    for kind, outcome in outcomes:
        if rows := outcome.details.get("figures"):
            parts += [f"## {outcome.step.what} ({kind} {outcome.step.name})", _figures(rows)]
        if skipped := outcome.details.get("skipped"):
            parts += [f"Not run in {outcome.step.name}:", "\n".join(f"- {n}: {why}" for n, why in skipped.items())]
    path = folder / "report.md"
    aside = path.with_suffix(".tmp")
    aside.write_text("\n\n".join(filter(None, parts)) + "\n")
    aside.rename(path)
    return path


def _seen(name: str, text: str) -> str:
    """Return what was seen as a line, or as it is if it has several."""
    return f"{name}:\n\n```\n{text}\n```" if "\n" in text else f"- {name}: {text}"


def row(kind: str, outcome: Outcome) -> str:
    """Return the line of a step in the table; `kind` may be empty."""
    named = f"{kind} {outcome.step.name}".strip()
    cells = (named, outcome.verdict, f"{outcome.seconds:.0f}", outcome.step.what, outcome.said)
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _figures(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = ["| figure | value | unit | threshold | verdict |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        cells = (row["name"], f"{row['value']:g}", row["unit"], row.get("threshold", ""), row.get("verdict", ""))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
