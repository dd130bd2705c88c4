"""A merge in a process of its own: python -m tests.stages.merge.child FOLDER MERGER, which prints its peak memory.

FOLDER has the folders `models-*` and, if it is needed, `base`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

import components.merge.run  # noqa: F401  (what a merge imports counts before it begins)
from components.merge.component import COMPONENT
from components.merge.run import run
from tests.support.stage_context import LocalContext


def main(folder: Path, merger: str) -> None:
    """Merge, and print what the process held at most before and in all, in MiB, and how long it took."""
    torch.set_num_threads(1)
    params = {"merger": json.loads(merger)}
    models, base = sorted(folder.glob("models-*")), folder / "base"
    inputs = {"models": models, **({"base": base} if base.is_dir() else {})}
    formed = COMPONENT.formed(COMPONENT.params.model_validate(params))
    context = LocalContext(formed, folder / "merge", params=params, inputs=inputs, seed=0)
    before = peak()
    print("began", flush=True)
    run(context)
    print(json.dumps({"before": before, "peak": peak()}), flush=True)


def peak() -> float:
    """Return the most memory of this process so far, mapped files included."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
