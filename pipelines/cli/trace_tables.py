"""What `posttrain trace` prints: texts of rows and models are shown with everything invisible spelled out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from components.contract.terminal import short_line, visible_line
from pipelines.cli.output import print_table, print_text

if TYPE_CHECKING:
    from components.runtime.store import Store
    from pipelines.provenance.backward import Behind, NearRow
    from pipelines.provenance.forward import Touched
    from pipelines.provenance.items import Measured

MAX_TEXT, MAX_CELL, HEAD, MAX_METRICS = 300, 60, 16, 3
SHORT = 12


def print_touched(touched: Touched) -> None:
    """Print what a source touched."""
    rows = [
        [
            use.source.label,
            use.source.domain or "-",
            str(use.entry["run_id"]),
            f"{use.stage}.{use.port}" if use.port else use.stage,
            "-" if use.kept is None else f"{use.kept:,} of {use.drawn:,}",
            use.license or "unknown",
            (use.revision or use.sha256 or "-")[:SHORT],
            str(len(use.runs)),
        ]
        for use in touched.uses
    ]
    head = ["source", "domain", "run", "stage", "rows kept", "licence", "revision", "runs"]
    print_table(head, rows, title="Read by")
    print()
    if touched.models:
        print_table(
            ["run", "output", "digest", "registered"],
            [
                [
                    model["run"],
                    f"{model['stage']}.{model['port']}",
                    _digest(model),
                    ", ".join(model["registered"]) or "-",
                ]
                for model in touched.models
            ],
            title="Models",
        )
        print()
    print_table(
        ["run", "stage", "component", "metrics"],
        [[one["run"], one["stage"], one["component"], _metrics(one["metrics"])] for one in touched.measured],
        title="Measured after it",
    )
    print()
    if touched.exports:
        rows = [[one["model"][:SHORT], one["folder"], str(one["time"])[:19]] for one in touched.exports]
        print_table(["model", "folder", "exported"], rows, title="Exports")
        print()
    for one in touched.rebuilds:
        print_text(f"run {one['before']} was made again without it: {one['after']}")
    others = ", ".join(f"{count} {type}" for type, count in touched.others.items())
    print_text(f"{touched.name}: {len(touched.stages)} stages, {len(touched.models)} models, {others}")


def _digest(model: dict[str, Any]) -> str:
    return str(model["digest"])[:SHORT] + ("" if model["stored"] else " removed")


def _metrics(metrics: dict[str, float]) -> str:
    shown = [f"{name} {value:.4g}" for name, value in list(metrics.items())[:MAX_METRICS]]
    return "  ".join([*shown, *([f"and {len(metrics) - MAX_METRICS} more"] if len(metrics) > MAX_METRICS else [])])


def print_items(measured: Measured, behind: Behind) -> None:
    """Print items of an evaluation with the nearest training row of each."""
    rows = []
    for one in behind.traces:
        near = one.rows[0] if one.rows else None
        rows.append(
            [
                one.item.id,
                measured.solved[one.item.id].words,
                _nearness(near) if near else "nothing near",
                near.origin.words if near else "-",
                _middle(one.item.prompt),
            ]
        )
    print_table(["item", "solved", "nearest training row", "source", "prompt"], rows, title=measured.place)
    _print_read(behind, str(measured.entry["run_id"]))
    print_text(f"one of them: posttrain trace {measured.place} ITEM")


def print_item(store: Store, measured: Measured, behind: Behind, limit: int) -> None:
    """Print one item with what is near to it, at most `limit` rows of each kind."""
    from pipelines.provenance.items import written_for

    one, run = behind.traces[0], str(measured.entry["run_id"])
    print_text(f"{one.item.id} (domain {one.item.domain}) in {measured.place}: {measured.solved[one.item.id].words}")
    print_text(f"  prompt    {short_line(one.item.prompt, MAX_TEXT)}")
    print_text(f"  answer    {short_line(one.item.answer, MAX_TEXT)}")
    for sample in written_for(store, measured, one.item.id)[:2]:
        print_text(f"  {sample.outcome or 'wrote':9} {short_line(sample.response or '', MAX_TEXT)}")
    print()
    _print_near("Nearest training rows", one.rows[:limit], run)
    _print_rollouts(one.rollouts[:limit], run)
    if one.ledgers:
        rows = [
            [
                _places((ledger.stage,), run),
                str(ledger.num_prompts),
                f"{_share(ledger.first_rate)} to {_share(ledger.last_rate)}",
                ledger.own.words if ledger.own else "never",
            ]
            for ledger in one.ledgers
        ]
        head = ["stage", "prompts", "pass rate", "this item"]
        print_table(head, rows, title=f"Ledger of domain {one.item.domain}, first and last tenth")
        print()
    _print_read(behind, run)


def _print_near(title: str, found: Sequence[NearRow], run: str) -> None:
    if not found:
        print(f"{title}: none is near\n")
        return
    rows = [
        [
            _places(near.stages, run),
            f"{near.port} {near.digest[:SHORT]}",
            str(near.near.number + 1),
            _nearness(near),
            near.origin.words,
            _middle(_text(near)),
        ]
        for near in found
    ]
    print_table(["learned by", "dataset", "row", "near", "source", "text"], rows, title=title)
    print()


def _print_rollouts(found: Sequence[NearRow], run: str) -> None:
    if not found:
        print("Rollouts: none is near\n")
        return
    rows = [
        [
            _places(near.stages, run),
            str(near.near.row.get("step", "-")),
            _nearness(near),
            str(near.near.row.get("outcome", "-")),
            _number(near.near.row.get("reward")),
            _middle(str(near.near.row.get("prompt", ""))),
            _middle(str(near.near.row.get("response", ""))),
        ]
        for near in found
    ]
    print_table(["stage", "step", "near", "outcome", "reward", "prompt", "response"], rows, title="Rollouts")
    print()


def _print_read(behind: Behind, run: str) -> None:
    trained = _places(behind.stages, run) or "no stage of this store"
    print_text(f"read {behind.num_rows:,} training rows and {behind.num_rollouts:,} rollouts of {trained}")
    for line in behind.gone:
        print_text(line)


def _places(stages: Sequence[str], run: str) -> str:
    """Return stages for people: those of the same run by their names alone."""
    return ", ".join(stage.removeprefix(f"{run}:") for stage in stages)


def _middle(text: str) -> str:
    """Return a text in one line, its middle cut: rows of one template differ at their ends."""
    line = visible_line(" ".join(text.split()))
    return line if len(line) <= MAX_CELL else f"{line[:HEAD]} ... {line[HEAD + 5 - MAX_CELL :]}"


def _nearness(near: NearRow) -> str:
    return f"{near.near.how} {near.near.similarity:.2f}" if near.near.how != "same id" else "same id"


def _text(near: NearRow) -> str:
    from pipelines.provenance.nearest import content

    response = near.near.row.get("response")
    return content(near.near.row) + (f" -> {response}" if isinstance(response, str) else "")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else "-"
