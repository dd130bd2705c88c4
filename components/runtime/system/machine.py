"""Where a stage ran, for its record: what computed there, and whether it would give the same bytes again."""

from __future__ import annotations

import platform
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.runtime.system.products import DEFAULT, in_use, was_chosen

if TYPE_CHECKING:
    from components.contract.job import Job


def machine_record(job: Job, *, device: str, processes: int, models: bool) -> dict[str, Any]:
    """Return where a job ran, for its action and ledger entry.

    `device` is "cpu" or "cuda", and `models` says whether it computes with models, by torch or an engine. `products`
    are the libraries of matrix products that were chosen for this processor. `repeats` says whether the same job gives
    the same bytes on such a machine, with these packages, products and this number of threads.
    """
    resources = job.resources
    return {
        "device": gpu_name() if device == "cuda" else "cpu",
        "processor": processor(),
        "threads": resources.threads,
        "processes": processes,
        **({"torch": _installed("torch")} if models else {}),
        **({"products": in_use().record()} if models and device == "cpu" and was_chosen() else {}),
        "deterministic": resources.deterministic,
        "repeats": not job.endpoints and (device == "cpu" or resources.deterministic),
    }


def machine_in_words(record: dict[str, Any]) -> str:
    """Return a record as text: "NVIDIA H100 80GB HBM3 x 8, deterministic"; "" for stages from before there were any."""
    if not record:
        return ""
    device = record["processor"] if record["device"] == "cpu" else record["device"]
    count = f" x {record['processes']}" if record["processes"] > 1 else ""
    threads = f", {record['threads']} threads" if record["threads"] > 1 else ""
    chosen = sorted(kind for kind, library in record.get("products", {}).items() if library != getattr(DEFAULT, kind))
    by = f", {' and '.join(chosen)} by MKL" if chosen else ""
    promise = "" if record["repeats"] else ", bytes do not repeat"
    return f"{device}{count}{threads}{by}{', deterministic' if record['deterministic'] else promise}"


def gpu_name() -> str:
    """Return the name of this process's GPU, such as "NVIDIA H100 80GB HBM3"."""
    torch = sys.modules["torch"]
    return str(torch.cuda.get_device_name())


@cache
def processor() -> str:
    """Return the model of this machine's CPU, or its architecture where the system does not tell."""
    return _cpu("model name") or platform.processor() or platform.machine()


@cache
def vendor() -> str:
    """Return the maker of this machine's CPU as it names itself, such as "GenuineIntel"; "" where it does not."""
    return _cpu("vendor_id")


def _cpu(field: str) -> str:
    """Return a field of the first CPU in /proc/cpuinfo; "" where there is none."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == field:
                return value.strip()
    return ""


def _installed(package: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(package)
    return None
