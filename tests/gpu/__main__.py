"""Run the steps on a GPU, one after the other: python -m tests.gpu {test,bench,node} [STEP ...]

Each step is a process of its own with a limit of eight minutes. Each writes FOLDER/<kind>-<step>.json with the device,
versions, time, outcome and figures, and FOLDER/<kind>-<step>.log with what it said. `node` looks at what is there, runs
the steps of all three kinds and writes FOLDER/report.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.gpu.device import DEVICE, ON_GPU, VARIABLE, facts, why_not
from tests.gpu.outcome import Outcome, run_step
from tests.gpu.report import look_around, write_report
from tests.gpu.steps import LIMIT_SECONDS, Step, steps

KINDS = ("test", "bench", "node")
DEFAULT_FOLDER = Path("build/gpu")


def chosen(kind: str, names: list[str]) -> list[tuple[str, Step]]:
    """Return the steps of these names with their kinds, all without names; exit with the known ones for another."""
    kinds = KINDS if kind == "node" else (kind,)
    found = [(one, step) for one in kinds for step in steps(one)]
    known = [step.name for _, step in found]
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"{', '.join(unknown)}: no such step (known: {', '.join(known)})")
    return [(one, step) for one, step in found if not names or step.name in names]


def line(outcome: Outcome) -> str:
    """Return what is shown of a step."""
    return f"{outcome.step.name:12} {outcome.verdict:8} {outcome.seconds:6.1f} s  {outcome.said}"


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("names", nargs="*", metavar="STEP")
    parser.add_argument("--list", action="store_true", help="name the steps and end")
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER)
    parser.add_argument("--limit", type=int, default=LIMIT_SECONDS, help="seconds that a step may take")
    return parser.parse_args()


def main() -> int:
    """Run the steps that are asked for; return 1 if one failed or missed a threshold."""
    given = options()
    found = chosen(given.kind, given.names)
    if given.list:
        print("\n".join(f"{kind:6} {step.name:22} {step.what}" for kind, step in found))
        return 0
    if reason := why_not():
        sys.exit(f"{given.kind}: {reason}")
    os.environ[VARIABLE] = DEVICE
    where = facts()
    print(f"{where['device']}, torch {where['torch']}, transformers {where['transformers']}", flush=True)
    if not ON_GPU:
        print("a rehearsal on a CPU: it shows that the steps run, and no figure of it is one of a GPU", flush=True)
    seen = look_around() if given.kind == "node" else {}
    for name, text in seen.items():
        print(f"{name:12} {text}", flush=True)
    outcomes = []
    for kind, step in found:
        outcomes.append((kind, run_step(step, kind, where, given.folder, limit=given.limit)))
        print(line(outcomes[-1][1]), flush=True)
    if given.kind == "node":
        print(f"report: {write_report(given.folder, where, seen, outcomes)}")
    bad = [outcome.step.name for _, outcome in outcomes if outcome.is_bad]
    took = sum(outcome.seconds for _, outcome in outcomes)
    told = f"; look at {', '.join(bad)} in {given.folder}" if bad else ""
    print(f"{len(outcomes)} steps in {took:.0f} s{told}")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
