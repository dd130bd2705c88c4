"""What a run cost: by stage, and by arm of its matrix, beside the plan's estimate and what the cache saved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from components.runtime.costs.amounts import Amount
from components.runtime.costs.words import amount_text, hours_text, money_text
from pipelines.plan.costs import RunCost, StageCost
from pipelines.report.arms.design import Design
from pipelines.report.collect import RunData, Stage
from pipelines.report.content import NOTHING, Cell, Heading, PageSection, Part, Rows, Strong

LEAD = (
    "Time of the processes of all attempts, those that failed or were killed too, times what their pool sets aside. "
    "The estimate is that of the plan, from the work of earlier runs alone, without start-up and failures."
)
HEAD = ["attempts", "took", "GPU", "CPU", "CPU at work", "price", "estimate", "saved by the cache"]


def cost_section(data: RunData, design: Design) -> PageSection:
    """Return what the run cost; no section of a run from before attempts were recorded."""
    if not data.cost.attempts and not data.cost.saved.hours:
        return PageSection("Cost", [])
    steps: dict[str, list[StageCost]] = {}
    for stage in data.stages:
        if cost := data.cost.stages.get(stage.name):
            steps.setdefault(stage.step, []).append(cost)
    rows = [_row(name, costs) for name, costs in steps.items() if any(cost.attempts or cost.saved for cost in costs)]
    whole = _row(Strong("all stages"), list(data.cost.stages.values()))
    parts: list[Part] = [Rows(["stage", *HEAD], [*rows, whole])]
    if len(design.arms) > 1:
        parts += [Heading("By arm"), Rows(["arm", *HEAD], list(_arms(data, design)))]
    return PageSection("Cost", parts, LEAD)


def sides_section(sides: Sequence[tuple[str, RunCost, RunCost]]) -> PageSection:
    """Return what sides cost, given (title, of its own, of what it shares with the other sides)."""
    head = ["", *HEAD, "shared with other cells"]
    rows = [
        [*_row(name, list(own.stages.values())), amount_text(shared.amount) if shared.attempts else NOTHING]
        for name, own, shared in sides
    ]
    known = any(own.attempts or own.saved.hours or shared.attempts for _, own, shared in sides)
    return PageSection("Cost", [Rows(head, rows)] if known else [], LEAD)


def _arms(data: RunData, design: Design) -> Iterable[list[Cell]]:
    """Yield a row for each arm, of the stages that it alone has, and one for what several arms share."""
    left = dict(data.cost.stages)
    for arm in design.arms:
        own = [stage for stage in data.stages if stage.name in left and _is_of(stage, design, arm.place)]
        yield _row(arm.title, [left.pop(stage.name) for stage in own])
    if left:
        yield _row("shared by arms", list(left.values()))


def _is_of(stage: Stage, design: Design, place: int) -> bool:
    covering = [arm.place for arm in design.arms if arm.covers(stage.arm)]
    return covering == [place]


def _row(name: Cell, costs: Sequence[StageCost]) -> list[Cell]:
    cost = RunCost({one.stage: one for one in costs})
    amount, estimate, saved = cost.amount, cost.estimate, cost.saved
    return [
        name,
        cost.attempts,
        hours_text(amount.hours),
        hours_text(amount.gpu_hours) if amount.gpu_hours else NOTHING,
        hours_text(amount.cpu_hours),
        _used(amount),
        money_text(amount) or NOTHING,
        NOTHING if estimate is None else amount_text(estimate),
        amount_text(saved) if saved.hours else NOTHING,
    ]


def _used(amount: Amount) -> str:
    return NOTHING if amount.cpu_hours_used is None else hours_text(amount.cpu_hours_used)
