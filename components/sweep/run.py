"""The sweep stage: draws trials, judges them at a rung, or concludes which is the best."""

from __future__ import annotations

from typing import Any

from components.contract.context import StageContext
from components.contract.errors import InputError
from components.measure.metrics import write_json
from components.sweep.outcome import best_of, failure_of, going_on, last_rung, mean, value_of
from components.sweep.params import SweepParams, Trial
from components.sweep.study import MIN_TRIALS, draw, importances

FEW_TRIALS_PER_PARAMETER = 10


def run(context: StageContext[SweepParams]) -> None:
    """Do the task; the numbers that later stages read are headline metrics, and trials.json is for people."""
    task = {"draw": _draw, "judge": _judge, "conclude": _conclude}[context.params.task]
    task(context)


def _draw(context: StageContext[SweepParams]) -> None:
    params = context.params
    drawn = draw(params, context.seed)
    rows = [_row(params, trial) for trial in params.trials]
    for number, values in drawn.items():
        context.headline(**{f"{name}_{number}": float(value) for name, value in values.items()})
        shown = {name: _choice(params, name, value) for name, value in values.items()}
        rows.append({"number": number, "params": shown, "value": None, "status": "drawn", "is_best": False})
    note = f"Trials {params.draw[0]} to {params.draw[-1]} are drawn by TPE from the results of those before."
    _write(context, note, rows)


def _judge(context: StageContext[SweepParams]) -> None:
    params = context.params
    rung = params.rungs[params.rung]
    measured = {trial.number: mean(trial.rungs[params.rung]) for trial in params.trials}
    kept = going_on(rung, measured.items(), params.direction)
    context.headline(**{f"goes_on_{number}": float(number in kept) for number in params.judge})
    rows = [_row(params, trial) for trial in params.trials]
    for row in rows:
        row["value"] = measured[row["number"]]
        if row["number"] in params.judge and row["value"] is not None:
            row["status"] = "goes_on" if row["number"] in kept else "stopped"
    limit = f"the best {rung.keep:.0%}" if rung.keep else f"at least {rung.at_least}"
    limit = f"at most {rung.at_most}" if rung.at_most is not None else limit
    _write(context, f"By {rung.metric}, {limit} of the trials so far go on.", rows)


def _conclude(context: StageContext[SweepParams]) -> None:
    params = context.params
    best = best_of(params)
    if best is None:
        raise InputError(_why_none(params))
    rows = [_row(params, trial) for trial in params.trials]
    for row in rows:
        row["is_best"] = row["number"] == best.number
    finished = sum(row["value"] is not None for row in rows)
    shares = importances(params, context.seed)
    value = value_of(best)
    assert value is not None
    context.headline(best_trial=best.number, objective=value, num_trials=len(rows), num_finished=finished)
    context.headline(num_stopped=sum(row["status"].startswith("stopped") for row in rows))
    failed = [trial.number for trial in params.trials if failure_of(trial)]
    if any(trial.failures for trial in params.trials):
        context.headline(num_failed=len(failed))
    numbers = {name: found for name, found in best.params.items() if isinstance(found, int | float)}
    context.headline(**{f"best_{name}": float(found) for name, found in numbers.items()})
    context.headline(**{f"importance_{name}": share for name, share in shares.items()})
    same = finished > 1 and all(row["value"] in (None, value) for row in rows)
    note = (
        f"Trial {best.number} is the best of {finished} by {params.objective} ({params.direction}d). It was chosen by "
        "this number, which is therefore optimistic: measure it on held-out data."
    )
    if same:
        note = (
            f"All {finished} finished trials have the same {params.objective}, {value:.4g}: nothing tells them apart, "
        )
        note += f"and the first, trial {best.number}, is taken."
    if failed:
        note += f" {_numbered(failed)} failed."
    _write(context, note, rows, best={"number": best.number, "params": best.params, "value": value})
    listed = [{"parameter": name, "importance": share} for name, share in shares.items()]
    about = {"note": _caveat(finished, len(params.space), bool(shares), same=same), "importances": listed}
    write_json(context.output("report") / "importances.json", about)


def _why_none(params: SweepParams) -> str:
    failures = {trial.number: error for trial in params.trials if (error := failure_of(trial))}
    if not failures:
        return (
            f"no trial of the sweep has the objective {params.objective}: all were stopped or skipped; widen the "
            "space, or ask less at the rungs"
        )
    number, error = next(iter(failures.items()))
    which = f"all {len(failures)} trials of the sweep failed"
    if len(failures) < len(params.trials):
        which = f"no trial of the sweep has the objective {params.objective}: {len(failures)} failed, others stopped"
    return f"{which}; trial {number}: {error}"


def _numbered(numbers: list[int]) -> str:
    *most, last = map(str, numbers)
    return f"Trials {', '.join(most)} and {last}" if most else f"Trial {last}"


def _caveat(finished: int, dimensions: int, known: bool, *, same: bool) -> str:
    if not known and same:
        return f"Nothing to say: the {finished} finished trials have the same objective."
    if not known:
        return f"Nothing to say from {finished} finished trials: it takes {MIN_TRIALS}, with different values."
    if finished < FEW_TRIALS_PER_PARAMETER * dimensions:
        return (
            f"From {finished} finished trials of {dimensions} parameters only: these shares are rough, and another "
            "seed may order them otherwise."
        )
    return f"From {finished} finished trials of {dimensions} parameters."


def _row(params: SweepParams, trial: Trial) -> dict[str, Any]:
    value, rung = value_of(trial), last_rung(trial)
    status = "finished" if value is not None else "no_value"
    if failure_of(trial):
        status = "failed"
    elif value is None and rung is not None:
        status = f"stopped_at_{params.rungs[rung[0]].metric}"
    return {"number": trial.number, "params": trial.params, "value": value, "status": status, "is_best": False}


def _choice(params: SweepParams, name: str, value: Any) -> Any:
    choices = params.space[name].choices
    return choices[value] if choices else value


def _write(context: StageContext[SweepParams], note: str, rows: list[dict[str, Any]], **more: Any) -> None:
    params = context.params
    about = {"objective": params.objective, "direction": params.direction, "sampler": params.sampler, "note": note}
    write_json(context.output("report") / "trials.json", {**about, **more, "trials": rows})
