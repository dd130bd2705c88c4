"""Take the steps on a cluster, one after the other: python -m tests.cluster --context NAME [STEP ...]

Each step leaves FOLDER/test-<step>.json, each run FOLDER/<step>.log; FOLDER/report.md tells of all steps. Steps that
have passed are not taken again unless they are named. Only the cluster of the context that is named is touched.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from components.contract.errors import PosttrainError
from components.contract.terminal import print_error, visible_line
from components.runtime.system.code import code_version
from tests.cluster.faults import made_of
from tests.cluster.install import facts
from tests.cluster.kubectl import Kubectl
from tests.cluster.outcome import Step, passed, take, write_report
from tests.cluster.session import opened
from tests.cluster.steps import STEPS

DEFAULT_FOLDER = Path("build/cluster")


def main() -> int:
    """Take the steps that are asked for; return 1 if one failed."""
    given = options()
    chosen = chosen_steps(given.names)
    if given.list:
        print("\n".join(f"{step.name:13} {step.what}: {step.holds}" for step in chosen))
        return 0
    try:
        kubectl = Kubectl.of(given.context)
        folder = given.folder / re.sub(r"[^A-Za-z0-9_.-]+", "-", given.context)
        return take_all(chosen, kubectl, folder, again=bool(given.names))
    except PosttrainError as error:
        print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        print("stopped; the same command goes on with the step", file=sys.stderr)
        return 130


def take_all(chosen: list[Step], kubectl: Kubectl, folder: Path, *, again: bool) -> int:
    """Take steps, each with ways to the cluster of its own; return 1 if one failed."""
    bad, where = [], {}
    for step in chosen:
        if not again and passed(folder, step.name):
            print(f"{step.name:13} passed before; STEP={step.name} takes it again", flush=True)
            continue
        with opened(kubectl, folder) as session:
            if not where:
                where = {**facts(session), "tree": code_version()}
                print(f"{where['context']}: {where['server']}, nodes: {where['nodes']}", flush=True)
                for name in made_of(session).undo_temporary():
                    print(f"{name}: left by a step that was stopped; removed", flush=True)
            if again and passed(folder, step.name):
                session.forget(step.name)
            outcome = take(step, session, where)
        bad += [step.name] if outcome.is_bad else []
        print(f"{step.name:13} {outcome.verdict:8} {outcome.seconds:6.0f} s  {visible_line(outcome.said)}", flush=True)
    told = f"; look at {', '.join(bad)}" if bad else ""
    print(f"report: {write_report(folder, STEPS)}{told}")
    return 1 if bad else 0


def chosen_steps(names: list[str]) -> list[Step]:
    """Return the steps of these names, all but those that have to be named without; exit for an unknown one."""
    known = [step.name for step in STEPS]
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"{', '.join(unknown)}: no such step (known: {', '.join(known)})")
    return [step for step in STEPS if step.name in names or not (names or step.by_name)]


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="STEP")
    parser.add_argument("--context", default="", help="kubectl's name of the cluster; there is no default")
    parser.add_argument("--list", action="store_true", help="name the steps and end")
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
