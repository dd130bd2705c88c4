"""The tabulate stage: paired tables, grids, equal tokens and fitted mixtures, and curate's mixtures beside them."""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from components.contract.errors import InputError
from components.curate.component import COMPONENT as CURATE
from components.curate.component import asks
from components.curate.params import CurateParams
from components.measure.fitted_mixture import read_mixture
from components.tabulate.component import COMPONENT
from components.tabulate.equal_tokens import value_at
from components.tabulate.params import TabulateParams
from components.tabulate.surrogate import (
    features,
    fit_surface,
    held_out_predictions,
    highest_point,
    left_out_residuals,
    rank_correlation,
)
from components.tasks.rows import read_rows
from tests.support.stage_context import Finished, run_stage, write_jsonl


def evaluation(folder: Path, rates: dict[str, list[float]]) -> Path:
    """Write the ledger of an evaluation with 4 samples of each prompt: domain -> pass rates of its prompts."""
    folder.mkdir(parents=True)
    rows = [
        {"prompt_id": f"{domain}-{number}", "domain": domain, "num_samples": 4, "num_right": round(4 * rate),
         "num_wrong": 4 - round(4 * rate), "num_failed": 0}
        for domain, found in rates.items() for number, rate in enumerate(found)
    ]  # fmt: skip
    (folder / "passrates.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def tabulate(folder: Path, arms: list[tuple[dict[str, Any], dict[str, list[float]]]], **params: Any) -> Finished:
    inputs = [evaluation(folder / f"in-{number}", rates) for number, (_, rates) in enumerate(arms)]
    cells = [{"stage": "evaluate", "labels": labels} for labels, _ in arms]
    return run_stage(COMPONENT, folder, params={"cells": cells, **params}, inputs={"metrics": inputs})


def table_of(finished: Finished) -> dict[str, Any]:
    return json.loads((finished.outputs["report"] / "table.json").read_text())


def test_the_table_is_a_transfer_matrix_against_the_start(tmp_path: Path) -> None:
    """By hand: trained on sums, +1/4 on sums and -1/2 on words."""
    arms = [
        ({}, {"sums": [0.25, 0.5], "words": [0.5, 1.0]}),
        ({"arm": "sums"}, {"sums": [0.5, 0.75], "words": [0.0, 0.5]}),
    ]
    table = table_of(tabulate(tmp_path, arms, baseline="evaluate"))
    start, trained = table["rows"]
    assert (start["arm"], start["is_baseline"], start["differences"]) == ("evaluate", True, {})
    assert {domain: entry["value"] for domain, entry in trained["values"].items()} == {"sums": 0.625, "words": 0.25}
    assert trained["differences"]["sums"] == {"value": 0.25, "low": 0.25, "high": 0.25, "n": 2}  # paired: no spread
    assert trained["differences"]["words"]["value"] == -0.5 and trained["mean_difference"] == -0.125
    assert (trained["values"]["sums"]["low"], trained["values"]["sums"]["high"]) == (0.5, 0.75)


def test_several_seeds_give_an_interval_over_seeds(tmp_path: Path) -> None:
    gains = [0.25, 0.5, 0.75]
    arms = [({"arm": "grpo", "seed": seed}, {"sums": [0.25, 0.0]}) for seed in range(3)]
    arms += [({"arm": "dapo", "seed": seed}, {"sums": [0.25 + gain, gain]}) for seed, gain in enumerate(gains)]
    finished = tabulate(tmp_path, arms, baseline="grpo")
    found = table_of(finished)["rows"][1]["differences"]["sums"]
    reach = 4.302653 * statistics.stdev(gains) / 3**0.5  # Student's t, 2 degrees of freedom
    assert (found["value"], found["n"]) == (0.5, 3)
    assert (found["low"], found["high"]) == pytest.approx((0.5 - reach, 0.5 + reach), abs=1e-5)
    assert finished.metrics["difference_dapo_sums"] == 0.5 and finished.metrics["num_arms"] == 2


def test_only_shared_prompts_are_compared(tmp_path: Path) -> None:
    arms = [
        ({"arm": "a"}, {"sums": [0.5, 0.5, 1.0]}),
        ({"arm": "b"}, {"sums": [1.0, 0.75]}),
        ({"arm": "c"}, {"x": [1.0]}),
    ]
    rows = table_of(tabulate(tmp_path, arms, baseline="a"))["rows"]
    assert rows[1]["differences"]["sums"]["value"] == 0.375 and rows[2]["differences"] == {}


def test_a_grid_has_one_axis_down_and_one_across(tmp_path: Path) -> None:
    arms = [
        ({"level": level, "method": method}, {"easy": [rate], "hard": [rate / 2]})
        for level, method, rate in [("low", "sft", 0.5), ("low", "rl", 1.0), ("high", "sft", 0.0), ("high", "rl", 0.5)]
    ]
    grids = table_of(tabulate(tmp_path, arms, grid={"rows": "level", "columns": "method"}))["grids"]
    assert [grid["domain"] for grid in grids] == ["easy", "hard"] and grids[0]["columns"] == ["sft", "rl"]
    assert {row: [cell["value"] for cell in cells.values()] for row, cells in grids[0]["cells"].items()} == {
        "low": [0.5, 1.0],
        "high": [0.0, 0.5],
    }
    third = [(labels | {"size": size}, rates) for labels, rates in arms for size in (1, 2)]
    with pytest.raises(InputError, match="several arms are level=low, method=sft"):
        tabulate(tmp_path / "third", third, grid={"rows": "level", "columns": "method"})


def training(folder: Path, rows: list[dict[str, float]]) -> Path:
    return write_jsonl(folder, rows, name="history.jsonl")


def test_trainings_are_compared_where_the_shorter_has_ended(tmp_path: Path) -> None:
    long = [{"step": step, "num_tokens": 100, "pass_rate": 0.1 * step} for step in range(1, 6)]
    short = [{"step": 1, "num_tokens": 50, "pass_rate": 0.2}, {"step": 2, "num_tokens": 200, "pass_rate": 0.5}]
    inputs = {
        "metrics": [evaluation(tmp_path / f"e{n}", {"sums": [0.5]}) for n in range(2)],
        "training": [training(tmp_path / "long", long), training(tmp_path / "short", short)],
    }
    cells = [{"labels": {"arm": "long"}}, {"labels": {"arm": "short"}}]
    params = {"cells": cells, "training_cells": cells, "baseline": "long", "curve": "pass_rate"}
    found = table_of(run_stage(COMPONENT, tmp_path / "run", params=params, inputs=inputs))["equal_tokens"]
    assert found["tokens"] == 250
    assert [row["value"]["value"] for row in found["rows"]] == [pytest.approx(0.25), 0.5]
    assert found["rows"][1]["difference"] == {"value": pytest.approx(0.25), "n": 1}  # one repeat has no interval
    with pytest.raises(InputError, match=r"no row has 'heldout_pass_rate' \(curve\); the history has num_tokens"):
        run_stage(COMPONENT, tmp_path / "no", params={**params, "curve": "heldout_pass_rate"}, inputs=inputs)
    with pytest.raises(InputError, match="takes metrics of rl stages"):
        run_stage(COMPONENT, tmp_path / "not", params=params, inputs={**inputs, "training": inputs["metrics"]})


def test_values_between_points_and_before_the_first() -> None:
    curve = [(10.0, 1.0), (20.0, 2.0), (20.0, 4.0), (40.0, 8.0)]
    assert [value_at(curve, tokens) for tokens in (5, 10, 15, 30, 40, 99)] == [None, 1.0, 1.5, 6.0, 8.0, 8.0]


SIMPLEX = st.lists(st.floats(0.01, 1), min_size=3, max_size=3).map(lambda raw: [share / sum(raw) for share in raw])


@given(st.lists(SIMPLEX, min_size=6, max_size=14), st.sampled_from([1e-3, 0.1, 10.0]), st.integers(0, 99))
@settings(deadline=None)
def test_the_surface_is_ridge_least_squares(points: list[list[float]], ridge: float, seed: int) -> None:
    """The reference: least squares with a row sqrt(ridge) for each coefficient, and fits without each mixture."""
    weights, values = np.array(points), np.random.default_rng(seed).normal(size=len(points))

    def reference(rows: np.ndarray) -> np.ndarray:
        found = features(weights[rows], quadratic=True)
        design = np.hstack([np.ones((len(found), 1)), found])
        penalty = np.hstack([np.zeros((found.shape[1], 1)), ridge**0.5 * np.eye(found.shape[1])])
        target = np.concatenate([values[rows], np.zeros(found.shape[1])])
        return np.linalg.lstsq(np.vstack([design, penalty]), target, rcond=None)[0]

    everything = np.arange(len(points))
    surface, expected = fit_surface(weights, values, quadratic=True, ridge=ridge), reference(everything)
    assert [surface.intercept, *surface.coefficients] == pytest.approx(expected, abs=1e-6)
    left = left_out_residuals(features(weights, quadratic=True), values, ridge)
    held = held_out_predictions(weights, values, quadratic=True, ridge=ridge)
    for row in everything:
        other = reference(everything[everything != row])
        predicted = other[0] + features(weights[row : row + 1], quadratic=True)[0] @ other[1:]
        assert held[row] == pytest.approx(predicted, abs=1e-6)
        assert left[row] == pytest.approx(values[row] - predicted, abs=1e-6)


def test_the_highest_point_of_a_known_surface() -> None:
    """By hand: 1 - |w - (0.5, 0.3, 0.2)|^2 is highest there; a plane is highest in a corner."""
    weights = np.random.default_rng(0).dirichlet(np.ones(3), 40)
    target = np.array([0.5, 0.3, 0.2])
    bowl = fit_surface(weights, 1 - ((weights - target) ** 2).sum(axis=1), quadratic=True, ridge=1e-9)
    assert highest_point(bowl, 3) == pytest.approx(target, abs=2e-3)
    plane = fit_surface(weights, weights @ np.array([1.0, 3.0, 2.0]), quadratic=False, ridge=1e-9)
    assert highest_point(plane, 3) == pytest.approx([0.0, 1.0, 0.0])
    saddle = fit_surface(weights, weights[:, 0] * weights[:, 1], quadratic=True, ridge=1e-9)
    assert highest_point(saddle, 3) == pytest.approx([0.5, 0.5, 0.0], abs=1e-3)


@given(st.lists(st.integers(0, 5), min_size=3, max_size=9), st.integers(0, 99))
def test_rank_correlations_agree_with_scipy(values: list[int], seed: int) -> None:
    from scipy.stats import spearmanr

    first, second = np.array(values, dtype=float), np.random.default_rng(seed).permutation(len(values)).astype(float)
    if len(set(values)) == 1:
        assert rank_correlation(first, second) is None
    else:
        assert rank_correlation(first, second) == pytest.approx(spearmanr(first, second).statistic, abs=1e-9)


def mixture_arms() -> tuple[dict[str, dict[str, float]], list[tuple[dict[str, Any], dict[str, list[float]]]]]:
    """Nine mixtures of three domains: a and b help one another, c hurts."""
    shares = {"a": (1, 0, 0), "b": (0, 1, 0), "c": (0, 0, 1), "ab": (1, 1, 0), "ac": (1, 0, 1), "bc": (0, 1, 1),
              "abc": (1, 1, 1), "aab": (2, 1, 0), "abb": (1, 2, 0)}  # fmt: skip
    mixtures = {name: dict(zip("abc", map(float, found), strict=True)) for name, found in shares.items()}
    arms = []
    for name, found in mixtures.items():
        a, b, c = (share / sum(found.values()) for share in found.values())
        right = round(400 * (0.2 + 2 * a * b - 0.1 * c))
        arms.append(({"mixture": name}, {"test": [1.0] * right + [0.0] * (400 - right)}))
    return mixtures, arms


def test_a_mixture_is_fitted_and_curate_takes_it(tmp_path: Path) -> None:
    mixtures, arms = mixture_arms()
    finished = tabulate(tmp_path, arms, fit={"mixtures": mixtures})
    shares = read_mixture(finished.outputs["metrics"])
    assert shares["a"] == pytest.approx(0.5, abs=0.05) and shares["c"] == pytest.approx(0, abs=0.05)
    skill = {name: finished.metrics[f"rank_correlation_{name}"] for name in ("quadratic", "linear")}
    assert skill["quadratic"] > 0.8 > skill["linear"]
    assert finished.metrics["predicted"] > finished.metrics["predicted_uniform"]
    facts = table_of(finished)["mixture"]
    assert facts["best_measured"] == 0.7 and len(facts["points"]) == 9

    sources = [
        {"domain": domain, "source": {"name": "reasoning_gym", "task": task}}
        for domain, task in {"a": "chain_sum", "b": "spell_backward", "c": "base_conversion"}.items()
    ]
    params = {"size": 40, "sources": sources, "mixture": "fitted"}
    made = run_stage(CURATE, tmp_path / "made", params=params, inputs={"mixture": finished.outputs["metrics"]})
    counts = Counter(row["domain"] for row in read_rows(made.outputs["dataset"]))
    assert all(abs(counts[domain] - 40 * share) <= 1 for domain, share in shares.items())
    for wrong, said in {
        "metrics": "no mixture.json; connect the metrics of a tabulate stage with `fit`",
    }.items():
        plain = tabulate(tmp_path / wrong, arms)
        with pytest.raises(InputError, match=re.escape(said)):
            run_stage(CURATE, tmp_path / f"no-{wrong}", params=params, inputs={"mixture": plain.outputs["metrics"]})
    other = {**params, "sources": [*sources[:2], {**sources[2], "domain": "d"}]}
    with pytest.raises(InputError, match="'d' is not in the fitted mixture"):
        run_stage(CURATE, tmp_path / "other", params=other, inputs={"mixture": finished.outputs["metrics"]})


def test_a_linear_surface_takes_a_single_domain_by_an_independent_fit(tmp_path: Path) -> None:
    mixtures, arms = mixture_arms()
    better = {name: 40 * round(found["a"] / sum(found.values()), 1) for name, found in mixtures.items()}
    for labels, rates in arms:  # so that a and b are not alike
        more = round(better[labels["mixture"]])
        rates["test"] = [1.0] * (round(sum(rates["test"])) + more) + [0.0] * (400 - round(sum(rates["test"])) - more)
    finished = tabulate(tmp_path, arms, fit={"mixtures": mixtures, "surface": "linear", "ridge": 1e-6})
    shares = read_mixture(finished.outputs["metrics"])
    weights = np.array([[w / sum(found.values()) for w in found.values()] for found in mixtures.values()])
    values = np.array([np.mean(rates["test"]) for _, rates in arms])
    found, *_ = np.linalg.lstsq(weights, values, rcond=None)  # on the simplex the intercept lies within the weights
    assert shares == {domain: float(at == found.argmax()) for at, domain in enumerate("abc")}
    assert finished.metrics["predicted"] == pytest.approx(found.max(), abs=1e-4)
    facts = table_of(finished)["mixture"]
    assert (
        facts["surface"] == "linear" and "A linear surface" in (finished.outputs["report"] / "index.html").read_text()
    )
    curved = tabulate(tmp_path / "curved", arms, fit={"mixtures": mixtures, "ridge": 1e-6})
    assert finished.metrics["predicted"] < curved.metrics["predicted"]


@pytest.mark.parametrize(
    "text", ["", "[]", '{"shares": {}}', '{"shares": {"a": 2}}', '{"shares": {"a": "x"}}', '{"shares": {"a": 0.4}}']
)
def test_a_table_that_is_no_mixture_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "mixture.json").write_text(text)
    with pytest.raises(InputError, match=r"mixture.json: (not a fitted mixture|the shares of a mixture)"):
        read_mixture(tmp_path)


def test_shares_follow_what_a_model_fails_at(tmp_path: Path) -> None:
    """By hand: failure rates 0.75 and 0.25 share 40 rows as 30 and 10; p (1 - p) as 20 and 20."""
    ledger = evaluation(tmp_path / "ledger", {"a": [0.0, 0.5], "b": [0.5, 1.0]})
    sources = [
        {"domain": domain, "source": {"name": "reasoning_gym", "task": task}}
        for domain, task in {"a": "chain_sum", "b": "spell_backward"}.items()
    ]
    for by, expected in {"failure": {"a": 30, "b": 10}, "learnability": {"a": 20, "b": 20}}.items():
        params = {"size": 40, "sources": sources, "mixture": {"name": "measured", "by": by}}
        made = run_stage(CURATE, tmp_path / by, params=params, inputs={"ledger": ledger})
        assert Counter(row["domain"] for row in read_rows(made.outputs["dataset"])) == expected
    solved = evaluation(tmp_path / "solved", {"a": [1.0], "b": [1.0]})
    with pytest.raises(InputError, match="failure is 0 for every domain"):
        run_stage(CURATE, tmp_path / "z", params={**params, "mixture": "measured"}, inputs={"ledger": solved})
    with pytest.raises(InputError, match="no ledger measured 'b'"):
        few = evaluation(tmp_path / "few", {"a": [0.0]})
        run_stage(CURATE, tmp_path / "f", params={**params, "mixture": "measured"}, inputs={"ledger": few})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"size": None}, "mixture measured: set `size`"),
        ({"sources": [{"source": "artifact"}]}, "source 'artifact' has no `domain`"),
        ({"sources": [{"source": "artifact", "domain": "a", "count": 3}]}, "every source has a `count`"),
    ],
)
def test_a_mixture_of_nothing_is_told_before_the_run(changed: dict[str, Any], said: str) -> None:
    params = {"size": 4, "sources": [{"source": "artifact", "domain": "a"}], "mixture": "measured"}
    assert asks(CurateParams.model_validate(params)) == {"ledger": ["mixture 'measured'"]}
    with pytest.raises((ValidationError, InputError), match=re.escape(said)):
        CurateParams.model_validate({**params, **changed})


ARMS = [{"labels": {"mixture": name}} for name in "abc"]
FOUR = {name: {"x": 1.0, "y": float(number)} for number, name in enumerate("abcd")}


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"cells": ARMS, "baseline": "d"}, "no arm is called 'd'"),
        ({"cells": ARMS, "grid": {"rows": "mixtur", "columns": "mixture"}}, "no input has the axis 'mixtur'"),
        ({"cells": ARMS, "fit": {"axis": "arm", "mixtures": FOUR}}, "no input has the axis 'arm'"),
        ({"cells": [*ARMS, {"labels": {"mixture": "e"}}], "fit": {"mixtures": FOUR}}, "no shares for 'e'"),
        ({"fit": {"mixtures": {"a": {"x": 1}, "b": {"y": 1}}}}, "there are 2 of 2 domains; a surface takes 4"),
        ({"fit": {"mixtures": {**FOUR, "e": {"x": 0}}}}, "mixtures.e: shares are numbers from 0, and not all 0"),
        ({"fit": {"mixtures": {**FOUR, "e": {"x": -1}}}}, "mixtures.e: shares are numbers from 0"),
        ({"fit": {"mixtures": FOUR, "objective": {"x": 0}}}, "objective: weights are numbers from 0"),
    ],
)
def test_settings_that_cannot_be_meant(params: dict[str, Any], said: str) -> None:
    with pytest.raises((ValidationError, InputError), match=re.escape(said)):
        TabulateParams.model_validate(params)


def test_what_the_inputs_lack_is_told(tmp_path: Path) -> None:
    arms = [({"arm": "a"}, {"sums": [0.5]}), ({"arm": "b"}, {"sums": [0.5]})]
    with pytest.raises(InputError, match="2 inputs are connected, and 1 cells"):
        tabulate(tmp_path / "few", arms, cells=[{"labels": {}}])
    with pytest.raises(InputError, match="arm 'a': two inputs have the same labels"):
        tabulate(tmp_path / "twice", [arms[0], arms[0]])
    mixtures, many = mixture_arms()
    with pytest.raises(InputError, match="4 mixtures of 3 domains were measured"):
        tabulate(tmp_path / "four", many[:4], fit={"mixtures": mixtures})
    with pytest.raises(InputError, match="arm 'a' was not measured on 'other'"):
        tabulate(tmp_path / "other", many, fit={"mixtures": mixtures, "objective": {"other": 1}})


def test_names_on_the_page_are_text(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    finished = tabulate(tmp_path, [({"arm": hostile}, {"<b>d</b>": [0.5]}), ({"arm": "b"}, {"x": [1.0]})], baseline="b")
    page = (finished.outputs["report"] / "index.html").read_text()
    assert hostile not in page and "<b>" not in page and "&lt;script&gt;" in page


def test_equal_inputs_give_equal_bytes(tmp_path: Path) -> None:
    mixtures, arms = mixture_arms()
    first, second = (tabulate(tmp_path / name, arms, fit={"mixtures": mixtures}, baseline="abc") for name in "xy")
    assert first.digests == second.digests
