"""The device of all tests and benchmarks for a GPU: said once, by POSTTRAIN_TEST_DEVICE (cuda, or cpu for a rehearsal).

On a CPU everything runs at small sizes, so that it is known to run; no figure of that is one of a GPU.
"""

from __future__ import annotations

import os
import platform
from importlib.util import find_spec
from typing import Any, TypeVar

import pytest

VARIABLE = "POSTTRAIN_TEST_DEVICE"
DEVICE = os.environ.get(VARIABLE, "cuda")
ON_GPU = DEVICE == "cuda"
T = TypeVar("T")


def sized(on_gpu: T, on_cpu: T) -> T:
    """Return what fits the device."""
    return on_gpu if ON_GPU else on_cpu


def why_not() -> str | None:
    """Return why nothing can run on the device, or None."""
    import torch

    if DEVICE not in ("cuda", "cpu"):
        return f"{VARIABLE} is {DEVICE!r}: take cuda, or cpu"
    if ON_GPU and not torch.cuda.is_available():
        return "torch finds no GPU; DEVICE=cpu rehearses the same steps at small sizes, and measures nothing of a GPU"
    return None


def gpu_only(what: str) -> pytest.MarkDecorator:
    """Skip a test of something that only a GPU has."""
    return pytest.mark.skipif(not ON_GPU, reason=f"{what}: only a GPU has that, and this is a CPU")


def needs(package: str) -> pytest.MarkDecorator:
    """Skip a test where a package is not installed."""
    return pytest.mark.skipif(find_spec(package) is None, reason=f"the package {package} is not installed")


def synchronize() -> None:
    """Wait until the device has done what it was given."""
    import torch

    if ON_GPU:
        torch.cuda.synchronize()


def free_memory() -> None:
    """Give cached memory of the GPU back, and count its peak anew."""
    import gc

    import torch

    gc.collect()
    if ON_GPU:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak_memory() -> int:
    """Return the most bytes that tensors on the GPU took since `free_memory`; 0 on a CPU."""
    import torch

    return torch.cuda.max_memory_allocated() if ON_GPU else 0


def facts() -> dict[str, Any]:
    """Return what a result has to say of where it was made."""
    import torch

    found = {
        "device": torch.cuda.get_device_name() if ON_GPU else f"CPU rehearsal ({cpu_name()})",
        "is_gpu": ON_GPU,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda if ON_GPU else None,
    }
    if ON_GPU:
        found["gpus"] = torch.cuda.device_count()
        found["gpu_memory_gib"] = round(torch.cuda.get_device_properties(0).total_memory / 2**30, 1)
    for package in ("transformers", "triton", "deepspeed", "vllm"):
        found[package] = version(package)
    return found


def version(package: str) -> str | None:
    """Return a package's version; None if it is not installed."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def cpu_name() -> str:
    """Return the processor's name."""
    try:
        lines = open("/proc/cpuinfo").read().splitlines()  # noqa: PTH123, SIM115
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
