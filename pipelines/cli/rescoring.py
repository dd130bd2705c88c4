"""posttrain rescore: recorded responses judged again by another reward, before anything is trained."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError, PosttrainError, UnknownName
from components.contract.terminal import short_line
from pipelines.cli.output import print_json, print_table, print_text
from pipelines.cli.stores import store_of
from pipelines.runs.find import whole_reference
from pipelines.runs.recorded_steps import RecordedStage, recorded_stage

if TYPE_CHECKING:
    from components.rl.params import RLParams
    from components.runtime.job.replaying import RecordedWork
    from components.runtime.store import Store

SHOWN_GROUPS, SHOWN_RESPONSES = 3, 4
MAX_TEXT = 60
STEP_ROWS = 12


def rescore(arguments: argparse.Namespace) -> int:
    """Judge the recorded responses of a stage again, and print what would have changed."""
    from components.rl.rescore.request import params_with, verifier_with
    from components.runtime.job.replaying import RecordedWork

    if not (arguments.reward or arguments.verifier or arguments.combine):
        raise InputError("rescore: name what judges: --reward, --verifier or --combine")
    stage = recorded_stage(store_of(arguments), arguments.run, "rescore")
    wanted = _wanted(stage, arguments.steps)
    work = RecordedWork(stage.store, stage.entry)
    params = params_with(work.params, arguments.reward, arguments.combine)  # type: ignore[arg-type]
    verifier = verifier_with(arguments.verifier) if arguments.verifier else None
    more = _further(stage.store, arguments.further)
    found = _found(stage, work, params, verifier, more, wanted)
    if arguments.html is not None:
        from components.rl.rescore.page import render_page

        Path(arguments.html).write_text(render_page(found), encoding="utf-8")
    if arguments.json:
        print_json(found)
    else:
        _print(found, arguments.html)
    return 0


def _wanted(stage: RecordedStage, asked: tuple[int, int] | None) -> list[int]:
    """Return the steps to judge: those whose responses were kept; raise InputError if there are none of those asked."""
    first, last = asked or (stage.steps[0], stage.steps[-1])
    inside = [step for step in stage.steps if first <= step <= last]
    which = f"step {first}" if first == last else f"steps {first} to {last}"
    if not inside:
        raise InputError(f"rescore: {stage.name} recorded {stage.steps_text()}, and not {which}")
    whole = {recorded.line["step"] for recorded in stage.journal.all() if recorded.is_whole}
    wanted = [step for step in inside if step in whole]
    if not wanted:
        near = f"; those of steps {', '.join(map(str, sorted(whole)[:8]))} were" if whole else ""
        raise InputError(f"rescore: of {which} of {stage.name} no responses were kept{near}")
    return wanted


def _further(store: Store, given: Sequence[str]) -> dict[str, list[str]]:
    """Return port -> digests of models, as --in names them."""
    from components.contract.further import FURTHER
    from components.runtime.ledger.ledger import Ledger
    from components.runtime.lineage.graph.references import resolve_reference

    found: dict[str, list[str]] = {}
    for text in given:
        port, mark, name = text.partition("=")
        if not mark:
            raise InputError(f"--in {text}: expected PORT=MODEL")
        if port not in FURTHER:
            raise UnknownName("port for --in", port, FURTHER)
        found.setdefault(port, []).append(resolve_reference(Ledger(store), whole_reference(store, name)).digest)
    return found


def _found(
    stage: RecordedStage,
    work: RecordedWork,
    params: RLParams,
    verifier: dict[str, Any] | None,
    more: Mapping[str, list[str]],
    wanted: list[int],
) -> dict[str, Any]:
    """Judge, and return the findings with what was judged by what."""
    from components.rl.rescore.findings import Findings
    from components.rl.rescore.further import opened_further
    from components.rl.rescore.judging import Rescorer
    from components.runtime.job.operator_failure import failure_of, raised_by

    findings = Findings(seed=int(stage.entry["seed"]))
    with work.opened(more) as context, opened_further(context, params) as further:
        rescorer = Rescorer(context, stage.journal, params, verifier=verifier, further=further)
        try:
            for judged in rescorer.steps(wanted):
                findings.add(judged)
        except PosttrainError:
            raise
        except Exception as error:
            if (bound := raised_by(error)) is None:
                raise
            raise failure_of(bound, error) from error
    return {
        "run_id": stage.entry["run_id"],
        "stage": stage.entry["stage"],
        "steps_text": _steps_text(wanted, stage.steps),
        **_judges(work.params, params, verifier),  # type: ignore[arg-type]
        "advantages": (
            "those of the stage's operators"
            if rescorer.by_stage_advantages
            else f"rewards less the mean of their group, since the stage's cannot be made again: {rescorer.why}"
        ),
        "num_left_out": rescorer.num_left_out,
        **findings.to_json(rescorer.question),
    }


def _judges(before: RLParams, now: RLParams, verifier: dict[str, Any] | None) -> dict[str, str]:
    """Return in words what judged, and what judges now."""
    from components.rl.rescore.request import judge_text

    by = f"; verifier {verifier['name'].partition('@')[0]}" if verifier else ""
    return {"before": judge_text(before), "by": judge_text(now) + by}


def _steps_text(wanted: Sequence[int], recorded: Sequence[int]) -> str:
    first, last = wanted[0], wanted[-1]
    inside = sum(first <= step <= last for step in recorded)
    gaps = "" if len(wanted) == inside else f" ({len(wanted)} of {inside}: only their responses were kept)"
    return f"step {first}" if first == last else f"steps {first} to {last}{gaps}"


def _print(found: Mapping[str, Any], page: str | None) -> None:
    from components.rl.rescore.findings import FLIPPED, GAINED, KINDS, LOST
    from components.rl.rescore.page import number, share

    tau = found["tau"] or {"value": None}
    ends = f" [{number(tau['low'])}, {number(tau['high'])}]" if "low" in tau else ""
    kinds, total = found["kinds"], found["num_groups"]
    unjudged = f"; without a reward: {found['num_unjudged_then']} then, {found['num_unjudged_now']} now"
    print_text(
        f"rescore  stage {found['stage']!r} of run {found['run_id']}, {found['steps_text']}: {found['num_responses']} "
        f"responses in {total} groups\n"
        f"reward   {found['by']}, in place of {found['before']}\n"
        f"mean     {number(found['then'])} then, {number(found['now'])} now"
        f"{unjudged if found['num_unjudged_then'] or found['num_unjudged_now'] else ''}\n"
        f"ranks    Kendall's tau {number(tau['value'])}{ends} within groups; another best response in "
        f"{found['num_other_best']} of {found['num_with_both_signals']}\n"
        f"advantages  cosine {number(found['cosine'])}; the other sign for {found['num_flipped']} of "
        f"{found['num_signs']} responses ({found['advantages']})\n"
        f"groups   {', '.join(f'{kinds[kind]} {kind} ({share(kinds[kind], total)})' for kind in KINDS if kinds[kind])}"
    )
    if found["num_left_out"]:
        print_text(f"left out {found['num_left_out']} responses to prompts that are not in the stage's dataset")
    rows = found["steps"]
    shown = (
        [rows[at * (len(rows) - 1) // max(1, STEP_ROWS - 1)] for at in range(STEP_ROWS)]
        if len(rows) > STEP_ROWS
        else rows
    )
    headers = ["step", "mean then", "now", "tau", "cosine", FLIPPED, GAINED, LOST]
    keys = ("step", "then", "now", "tau", "cosine", FLIPPED, GAINED, LOST)
    print_table(headers, [[number(row[key]) if key != "step" else str(row[key]) for key in keys] for row in shown])
    for group in found["groups"][:SHOWN_GROUPS]:
        _print_group(group)
    if page is not None:
        print_text(f"page     {page}")


def _print_group(group: Mapping[str, Any]) -> None:
    from components.rl.rescore.page import number

    print_text(f"step {group['step']}, {group['prompt']} flips: reward (advantage) then -> now")
    rows = sorted(group["responses"], key=lambda row: not row["flips"])[:SHOWN_RESPONSES]
    for row in rows:
        then, now = (f"{number(row[key])} ({number(row[f'advantage_{key}'])})" for key in ("then", "now"))
        told = f"{then} -> {now}"
        print_text(f"  {told:32}  {short_line(row['text'], MAX_TEXT)}")
