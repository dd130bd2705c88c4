"""The sweep stage: who goes on by hand, what TPE draws, and which trial is the best."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.sweep.component import COMPONENT
from components.sweep.outcome import going_on
from components.sweep.params import Rung
from tests.support.stage_context import Finished, run_stage

SPACE = {
    "x": {"low": -4.0, "high": 4.0},
    "size": {"low": 1, "high": 64, "whole": True, "log": True},
    "kind": {"choices": ["a", ["b"]]},
}


def trial(number: int, x: float, value: float | None, rung: float | None = None) -> dict[str, Any]:
    params = {"x": x, "size": 2 * number, "kind": ["b"] if number % 2 else "a"}
    return {"number": number, "params": params, "values": [value], "rungs": [[rung]]}


TRIALS = [trial(1, -3.0, 9.0, 9.0), trial(2, 3.5, 12.25, 12.25), trial(3, 0.5, 0.25, 0.25), trial(4, 2.0, None, 30.0)]


def run(folder: Path, seed: int = 0, **params: Any) -> Finished:
    about = {
        "objective": "ev.loss",
        "direction": "minimize",
        "space": SPACE,
        "rungs": [{"metric": "sft.loss", "keep": 0.5}],
    }
    return run_stage(COMPONENT, folder, params={**about, "trials": TRIALS, **params}, seed=seed)


def report(done: Finished) -> dict[str, Any]:
    return json.loads((done.outputs["report"] / "trials.json").read_text())


@pytest.mark.parametrize(
    ("limit", "direction", "kept"),
    [
        ({"keep": 0.5}, "maximize", {2, 4}),
        ({"keep": 0.5}, "minimize", {1, 3}),
        ({"keep": 0.1}, "maximize", {4}),
        ({"keep": 0.7}, "maximize", {2, 3, 4}),
        ({"at_least": 0.3}, "minimize", {2, 3, 4}),
        ({"at_most": 0.2}, "maximize", {1}),
    ],
)
def test_a_rung_by_hand(limit: dict[str, float], direction: str, kept: set[int]) -> None:
    measured = [(1, 0.1), (2, 0.5), (3, 0.3), (4, 0.7), (5, None)]
    assert going_on(Rung(metric="a.b", **limit), measured, direction) == kept


def test_equals_go_on_together_and_nothing_measured_lets_nobody_on() -> None:
    assert going_on(Rung(metric="a.b", keep=0.5), [(1, 0.2), (2, 0.2), (3, 0.2)], "maximize") == {1, 2, 3}
    assert going_on(Rung(metric="a.b", keep=0.5), [(1, None)], "maximize") == set()


def test_a_judge_compares_with_all_and_speaks_of_its_own(tmp_path: Path) -> None:
    done = run(tmp_path, task="judge", judge=[3, 4], rung=0)
    assert done.metrics == {"goes_on_3": 1.0, "goes_on_4": 0.0}
    assert [row["status"] for row in report(done)["trials"]][2:] == ["goes_on", "stopped"]


def test_the_best_is_told_with_its_caveats(tmp_path: Path) -> None:
    done = run(tmp_path, task="conclude")
    assert {name: done.metrics[name] for name in ("best_trial", "objective", "best_x")} == {
        "best_trial": 3, "objective": 0.25, "best_x": 0.5
    }  # fmt: skip
    assert (done.metrics["num_trials"], done.metrics["num_finished"], done.metrics["num_stopped"]) == (4, 3, 1)
    shown = report(done)
    assert "optimistic: measure it on held-out data" in shown["note"]
    assert shown["trials"][3]["status"] == "stopped_at_sft.loss"
    assert [row["number"] for row in shown["trials"] if row["is_best"]] == [3]
    note = json.loads((done.outputs["report"] / "importances.json").read_text())
    assert note["importances"] == [] and "Nothing to say from 3 finished trials" in note["note"]
    with pytest.raises(InputError, match="no trial of the sweep has the objective"):
        run(tmp_path / "none", task="conclude", trials=[trial(1, 0.0, None)])


def test_a_failed_trial_is_never_the_best_whatever_it_measured(tmp_path: Path) -> None:
    failed = [{**TRIALS[2], "failures": [None, "OutOfMemory: too large"]}, {**TRIALS[3], "failures": ["lost", None]}]
    trials = [{**one, "failures": [None, None]} for one in TRIALS[:2]] + failed
    done = run(tmp_path, task="conclude", trials=trials)
    assert (done.metrics["best_trial"], done.metrics["num_failed"], done.metrics["num_finished"]) == (1, 2, 2)
    assert done.metrics["num_stopped"] == 0, "the fourth had passed a rung, and failed"
    assert [row["status"] for row in report(done)["trials"]] == ["finished", "finished", "failed", "failed"]
    assert "Trials 3 and 4 failed." in report(done)["note"]
    with pytest.raises(InputError, match="all 2 trials of the sweep failed; trial 3: OutOfMemory: too large"):
        run(tmp_path / "all", task="conclude", trials=failed)
    with pytest.raises(InputError, match="1 failed, others stopped; trial 4: lost"):
        run(tmp_path / "rest", task="conclude", trials=[trial(1, 0.0, None, 9.0), failed[1]])


def test_trials_that_nothing_tells_apart_are_told_so(tmp_path: Path) -> None:
    done = run(tmp_path, task="conclude", trials=[trial(number, float(number), 0.5) for number in (1, 2, 3, 4)])
    assert done.metrics["best_trial"] == 1
    assert "All 4 finished trials have the same ev.loss, 0.5: nothing tells them apart" in report(done)["note"]
    note = json.loads((done.outputs["report"] / "importances.json").read_text())["note"]
    assert note == "Nothing to say: the 4 finished trials have the same objective."


def test_tpe_draws_the_same_from_the_same_and_other_from_other(tmp_path: Path) -> None:
    first = run(tmp_path / "1", task="draw", draw=[5, 6])
    again = run(tmp_path / "2", task="draw", draw=[5, 6], trials=TRIALS[::-1])
    assert first.metrics == again.metrics, "the order in which trials are told does not matter"
    assert first.metrics != run(tmp_path / "3", seed=1, task="draw", draw=[5, 6]).metrics
    assert set(first.metrics) == {f"{name}_{number}" for name in SPACE for number in (5, 6)}
    assert -4 <= first.metrics["x_5"] <= 4 and first.metrics["size_5"] in range(1, 65)
    assert first.metrics["kind_5"] in (0, 1), "the position of a choice"
    assert first.metrics["x_5"] != first.metrics["x_6"]


def test_tpe_comes_closer_and_fanova_finds_what_matters(tmp_path: Path) -> None:
    known = [trial(n, x, x * x) for n, x in enumerate((1, -4, 3, 0, 2.5, -2, 3.5, -1, 4, -3, 2, -3.5), start=1)]
    drawn = [run(tmp_path / str(seed), seed, task="draw", draw=[13], trials=known).metrics["x_13"] for seed in range(5)]
    assert sorted(abs(x) for x in drawn)[2] < 2, "uniform draws have a median of 2"
    done = run(tmp_path / "end", task="conclude", trials=known)
    shares = {name.removeprefix("importance_"): v for name, v in done.metrics.items() if name.startswith("importance")}
    assert max(shares, key=lambda name: shares[name]) == "x" and sum(shares.values()) == pytest.approx(1, abs=0.01)
    about = json.loads((done.outputs["report"] / "importances.json").read_text())
    assert "From 12 finished trials of 3 parameters only: these shares are rough" in about["note"]
