"""posttrain replay: a step of RL made again, bit for bit, or where it parted."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.contract.terminal import visible
from pipelines.cli.output import print_json, print_text, seconds_text
from pipelines.cli.stores import store_of
from pipelines.runs.recorded_steps import RecordedStage, recorded_stage

SHOWN = ("reward_mean", "loss", "grad_norm", "entropy")
"""Columns of the history that tell a step apart, for people."""

if TYPE_CHECKING:
    from components.rl.journal.comparing import Parting
    from components.runtime.checkpoints.kept import Kept
    from components.runtime.job.replaying import Again, RecordedWork


def replay(arguments: argparse.Namespace) -> int:
    """Make a step again from the newest checkpoint before it, and compare; the exit code is 1 where it parted."""
    from pipelines.cli.stopping import terminate_like_interrupt

    terminate_like_interrupt()
    stage = recorded_stage(store_of(arguments), arguments.run, "replay")
    step = arguments.step
    if stage.journal.step(step) is None:
        raise InputError(f"replay: {stage.name} recorded {stage.steps_text()}, and no step {step}")
    from components.runtime.job.replaying import RecordedWork

    work = RecordedWork(stage.store, stage.entry)
    work.check_here()
    begin = work.begin_of(step)
    if begin is None and not arguments.from_start:
        raise InputError(_no_checkpoint(stage, step))
    first = begin.step + 1 if begin else 1
    if not arguments.json:
        print_text(_from_where(stage, begin, step))
    with work.up_to(step, begin, _shown(first, step, quiet=arguments.json)) as again:
        found = _compared(stage, again, first, step)
    changed = work.changed_code()
    if arguments.json:
        print_json(_as_json(stage, begin, step, found, again, changed))
    else:
        _print(stage, first, step, found, again, _reasons(work, again, changed))
    return 0 if found is None else 1


def _compared(stage: RecordedStage, again: Again, first: int, step: int) -> Parting | None:
    """Return the first difference of the steps that were made again."""
    from components.rl.journal.comparing import parting
    from components.rl.journal.segments import JournalFolder

    made, rows = JournalFolder(again.outputs / "rollouts"), {int(row["step"]): row for row in again.rows}
    for number in range(first, step + 1):
        then, now = stage.journal.step(number), made.step(number)
        if then is None:
            continue
        assert now is not None
        found = parting(then.line, now.line, stage.history.get(number), rows.get(number))
        if found is not None:
            return found
    return None


def _no_checkpoint(stage: RecordedStage, step: int) -> str:
    cost = (
        f", about {seconds_text(stage.seconds_of(step))} of its {seconds_text(stage.seconds)}" if stage.seconds else ""
    )
    steps = "step 1 would have" if step == 1 else f"steps 1 to {step} would all have"
    return (
        f"replay: {stage.name} kept no checkpoint before step {step}: {steps} to be run again{cost}; --from-start does "
        "that, and `keep_partial: every N` on the stage keeps checkpoints of its next run"
    )


def _from_where(stage: RecordedStage, begin: Kept | None, step: int) -> str:
    where = f"the kept checkpoint of step {begin.step}" if begin else "the stage's start"
    count = step - (begin.step if begin else 0)
    cost = f", about {seconds_text(stage.seconds_of(count))}" if stage.seconds else ""
    return f"replay  {stage.name}, step {step}\nfrom    {where}: {count} {'step' if count == 1 else 'steps'}{cost}"


def _shown(first: int, step: int, *, quiet: bool) -> Any:
    """Return what shows progress on a terminal."""

    def take(event: Mapping[str, Any]) -> None:
        if event["event"] == "warning":
            print(visible(event["text"]), file=sys.stderr)
        elif event["event"] == "progress" and sys.stderr.isatty() and not quiet:
            end = "\r" if event["done"] < step else "\r\033[K"
            print(f"\rstep {event['done']} of {first} to {step}", end=end, file=sys.stderr, flush=True)

    return take


def _reasons(work: RecordedWork, again: Again, changed: list[str]) -> list[str]:
    """Return what is not as it was, and may be why a step parted."""
    lines = []
    if changed:
        shown = ", ".join(changed[:4]) + (f" and {len(changed) - 4} more" if len(changed) > 4 else "")
        lines.append(f"code    {shown} changed since")
    for key in ("processor", "device", "torch", "threads", "products"):
        then, now = work.machine.get(key), again.machine.get(key)
        if then is not None and then != now:
            lines.append(f"{key:7} {then} then, {now} now")
    if not work.machine.get("repeats", True):
        lines.append("pool    its bytes do not repeat; `backend: {deterministic: true}` makes those of a GPU repeat")
    return lines


def _print(
    stage: RecordedStage, first: int, step: int, found: Parting | None, again: Again, reasons: list[str]
) -> None:
    if found is None:
        lines = [*_made(stage, step), f"equal   bit for bit: {_steps(first, step)}", *reasons]
    else:
        before = [f"before  {_steps(first, found.step - 1)} equal"] if found.step > first else []
        why = reasons or ["why     not known: code, processor and libraries are as then"]
        lines = [f"parted  {found}", *before, *why]
    print_text("\n".join([*lines, f"took    {seconds_text(again.seconds)}"]))


def _made(stage: RecordedStage, step: int) -> list[str]:
    """Return what the step was, in lines."""
    from components.rl.journal.comparing import drawn_words

    recorded = stage.journal.step(step)
    assert recorded is not None
    line, row = recorded.line, stage.history.get(step, {})
    shown = [f"{name} {row[name]:.4g}" for name in SHOWN if name in row]
    return [
        f"step    {step}: {len(line['responses'])} responses to {len(line['prompts'])} prompts, {drawn_words(line)}",
        f"made    {', '.join(shown)}, weights {line['after']['weights'] or 'in shards'}",
    ]


def _steps(first: int, last: int) -> str:
    return f"step {first}" if first == last else f"steps {first} to {last}"


def _as_json(
    stage: RecordedStage, begin: Kept | None, step: int, found: Parting | None, again: Again, changed: list[str]
) -> dict[str, Any]:
    recorded = stage.journal.step(step)
    assert recorded is not None
    return {
        "run_id": stage.entry["run_id"],
        "stage": stage.entry["stage"],
        "step": step,
        "from": begin.step if begin else 0,
        "equal": found is None,
        "parted": None if found is None else vars(found),
        "changed_code": changed,
        "machine": {"then": dict(stage.entry.get("machine") or {}), "now": dict(again.machine)},
        "seconds": round(again.seconds, 3),
        "line": json.loads(json.dumps(recorded.line)),
    }
