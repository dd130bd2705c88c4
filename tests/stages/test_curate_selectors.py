"""Selectors of curate: each against a hand-worked value and an independent reference, and through the stage."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.contract.errors import InputError
from components.curate.component import COMPONENT, asks
from components.curate.operators.selectors.diversity import farthest_first
from components.curate.operators.selectors.historical_variance import variance
from components.curate.operators.selectors.trajectory_match import mean_direction, similarity
from components.curate.operators.selectors.weakness import slope
from components.curate.params import CurateParams
from components.modeling.loading.load import load_policy
from components.modeling.supervised.examples import examples_from_rows
from components.tasks.rows import read_rows
from tests.stages.supervised_data import base_model
from tests.support.stage_context import Finished, Interrupted, run_stage, write_jsonl

RATES = st.lists(st.integers(0, 16).map(lambda right: right / 16), min_size=2, max_size=8)
SOURCE = [{"source": "artifact"}]


def prompts(folder: Path, names: str = "abcdef") -> Path:
    rows = [
        {"id": name, "domain": ("even", "odd")[number % 2], "prompt": f"{number} + 1 =", "answer": str(number + 1),
         "verifier": "exact"}
        for number, name in enumerate(names)
    ]  # fmt: skip
    return write_jsonl(folder, rows)


def ledger(folder: Path, histories: dict[str, list[tuple[int, int]]], policy: str = "p") -> Path:
    """Write the metrics of an rl stage: prompt -> (right, wrong) at each visit."""
    folder.mkdir(parents=True)
    totals = [
        {"prompt_id": name, "domain": "even", "num_samples": sum(map(sum, seen)),
         "num_right": sum(right for right, _ in seen), "num_wrong": sum(wrong for _, wrong in seen), "num_failed": 0}
        for name, seen in histories.items()
    ]  # fmt: skip
    visits = [
        {"policy": policy, "step": step, "prompt_id": name, "domain": "even", "num_right": right, "num_wrong": wrong}
        for name, seen in histories.items()
        for step, (right, wrong) in enumerate(seen)
    ]
    for file, rows in {"passrates.jsonl": totals, "visits.jsonl": visits}.items():
        (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def select(folder: Path, selector: dict[str, Any] | str, **inputs: Any) -> Finished:
    params = {"sources": SOURCE, "selectors": [selector], "shuffle": False, "verifiability": "off"}
    return run_stage(COMPONENT, folder, params=params, inputs=inputs)


def ids(finished: Finished) -> str:
    return "".join(row["id"] for row in read_rows(finished.outputs["dataset"]))


def drops(finished: Finished) -> dict[str, int]:
    card = json.loads((finished.outputs["dataset"] / "card.json").read_text())
    for source in card["sources"]:
        assert source["drawn"] == source["kept"] + sum(source["drops"].values())
    return card["drops"]


def test_two_models_leave_what_the_weak_fails_and_the_strong_can_solve(tmp_path: Path) -> None:
    weak = ledger(tmp_path / "weak", {"a": [(15, 1)], "b": [(14, 2)], "c": [(0, 16)], "d": [(3, 13)]})
    strong = ledger(
        tmp_path / "strong", {"a": [(16, 0)], "b": [(16, 0)], "c": [(0, 16)], "d": [(1, 15)], "e": [(1, 1)]}
    )
    given = {"dataset": prompts(tmp_path / "rows"), "ledger": [weak, strong]}
    found = select(tmp_path / "run", "two_model_band", **given)
    assert ids(found) == "bd"  # 15 of 16 is too easy for the weak, 0 of 16 too hard for the strong
    assert drops(found) == {"too_easy_for_weak": 1, "too_hard_for_strong": 1, "not_in_ledger": 2}
    swapped = select(tmp_path / "swapped", {"name": "two_model_band", "weak": 1, "strong": 0}, **given)
    assert ids(swapped) == "d"
    with pytest.raises(InputError, match="strong: ledger 1 of 1 that are connected"):
        select(tmp_path / "one", "two_model_band", **given | {"ledger": [weak]})


def test_the_rows_whose_rate_varied_most_are_kept(tmp_path: Path) -> None:
    histories = {"a": [(0, 4), (4, 0)], "b": [(2, 2), (2, 2)], "c": [(1, 3), (3, 1), (2, 2)], "d": [(4, 0)]}
    given = {"dataset": prompts(tmp_path / "rows"), "ledger": ledger(tmp_path / "ledger", histories)}
    found = select(tmp_path / "run", {"name": "historical_variance", "count": 2}, **given)
    rows = read_rows(found.outputs["dataset"])
    assert [(row["id"], row["scores"]) for row in rows] == [
        ("a", {"historical_variance": 0.25}),
        ("c", {"historical_variance": pytest.approx((2 * 0.0625) / 3)}),
    ]
    assert drops(found) == {"not_selected": 1, "too_few_visits": 3}
    weighed = select(tmp_path / "weighed", {"name": "historical_variance", "share": 0.5, "weigh": True}, **given)
    assert [row["weight"] for row in read_rows(weighed.outputs["dataset"])] == [0.25, 0.0, pytest.approx(0.125 / 3)]


@given(RATES)
def test_variance_and_slope_agree_with_references(rates: list[float]) -> None:
    assert variance(rates) == pytest.approx(statistics.pvariance(rates), abs=1e-12)
    assert slope(rates) == pytest.approx(np.polyfit(range(len(rates)), rates, 1)[0], abs=1e-9)


def test_weak_rows_never_reach_half_and_fall(tmp_path: Path) -> None:
    histories = {
        "a": [(7, 9), (4, 12)],  # weak: below 1/2, falling
        "b": [(4, 12), (7, 9)],  # rises
        "c": [(8, 8), (0, 16)],  # was at 1/2
        "d": [(4, 12), (4, 12)],  # slope 0
        "e": [(0, 16)],
    }
    given = {"dataset": prompts(tmp_path / "rows"), "ledger": ledger(tmp_path / "ledger", histories)}
    found = select(tmp_path / "run", "weakness", **given)
    assert ids(found) == "a"
    assert read_rows(found.outputs["dataset"])[0]["scores"] == {"weakness": -3 / 16}
    assert drops(found) == {"not_weak": 3, "too_few_visits": 2}


def test_the_edge_is_failed_once_and_solved_among_several(tmp_path: Path) -> None:
    histories = {"a": [(1, 15)], "b": [(0, 16)], "c": [(4, 12)], "d": [(3, 13)]}
    given = {"dataset": prompts(tmp_path / "rows"), "ledger": ledger(tmp_path / "ledger", histories)}
    found = select(tmp_path / "run", "edge", **given)
    assert ids(found) == "ad" and drops(found) == {"not_at_edge": 2, "not_in_ledger": 2}
    fours = select(tmp_path / "fours", {"name": "edge", "k": 4, "min_pass_at_k": 0.3}, **given)
    assert ids(fours) == "d"  # pass@4 is 1/4 for a, and 1 - C(13,4)/C(16,4) = 0.607 for d
    assert read_rows(fours.outputs["dataset"])[0]["scores"]["edge"] == pytest.approx(1 - 715 / 1820)
    levels = select(tmp_path / "levels", {"name": "edge", "level": "domain", "max_pass_at_1": 0.15}, **given)
    assert ids(levels) == "bd"  # the means are 5/32 of even and 3/32 of odd
    with pytest.raises(InputError, match=r"edge: prompt 'a': pass@32 cannot be estimated from 16"):
        select(tmp_path / "many", {"name": "edge", "k": 32}, **given)


def test_learnability_is_highest_at_one_half(tmp_path: Path) -> None:
    histories = {"a": [(0, 4)], "b": [(1, 3)], "c": [(2, 2)], "d": [(4, 0)]}
    given = {"dataset": prompts(tmp_path / "rows"), "ledger": ledger(tmp_path / "ledger", histories)}
    found = select(tmp_path / "run", {"name": "learnability", "count": 2}, **given)
    assert [row["scores"]["learnability"] for row in read_rows(found.outputs["dataset"])] == [3 / 16, 1 / 4]
    assert drops(found) == {"not_selected": 2, "not_in_ledger": 2}


def test_curves_like_those_of_the_labelled_are_kept(tmp_path: Path) -> None:
    up, down, flat = [(0, 4), (2, 2), (4, 0)], [(4, 0), (2, 2), (0, 4)], [(2, 2)] * 3
    histories = {"a": up, "b": down, "c": flat, "d": [(0, 8), (1, 7), (2, 6)], "e": up[:2]}
    given = {
        "dataset": prompts(tmp_path / "rows"),
        "ledger": ledger(tmp_path / "ledger", histories),
        "targets": prompts(tmp_path / "targets", "a"),
    }
    found = select(tmp_path / "run", "trajectory_match", **given)
    scores = {row["id"]: row["scores"]["trajectory_match"] for row in read_rows(found.outputs["dataset"])}
    assert scores == {"a": pytest.approx(1), "d": pytest.approx(1)}  # only the shape counts
    assert drops(found) == {"not_selected": 2, "too_few_visits": 2}
    share = select(tmp_path / "share", {"name": "trajectory_match", "threshold": None, "top_share": 0.75}, **given)
    assert ids(share) == "acd"  # a flat curve has no direction: cosine 0, above that of b
    with pytest.raises(InputError, match="no row at input 'targets' has 2 visits"):
        select(tmp_path / "none", "trajectory_match", **given | {"targets": prompts(tmp_path / "other", "z")})


@given(
    st.lists(st.lists(st.integers(0, 16).map(lambda right: right / 16), min_size=5, max_size=5), min_size=2, max_size=6)
)
def test_the_mean_cosine_agrees_with_correlations(curves: list[list[float]]) -> None:
    first, *references = curves
    if all(len(set(curve)) > 1 for curve in curves):
        expected = statistics.mean(statistics.correlation(first, other) for other in references)
        assert similarity(first, mean_direction(np.array(references))) == pytest.approx(expected, abs=1e-9)


def test_diverse_rows_are_far_from_one_another() -> None:
    features = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [1.0, 1.0], [-1.0, 0.0]])
    taken = farthest_first(features, 3)
    assert list(taken)[1] == 4
    first = next(iter(taken))
    assert taken[4] == pytest.approx(1 + features[first, 0] / np.linalg.norm(features[first]))
    assert list(farthest_first(features, 9)) and len(farthest_first(features, 9)) == 5
    assert farthest_first(np.zeros((0, 4)), 2) == {} and len(farthest_first(np.zeros((3, 4)), 2)) == 2


@given(st.integers(0, 10**6), st.integers(1, 5))
def test_greedy_centres_are_within_twice_the_best(seed: int, count: int) -> None:
    """Gonzalez's bound, of distances: chords on the circle, against all choices."""
    from itertools import combinations

    angles = np.random.default_rng(seed).uniform(0, 2 * np.pi, 8)
    points = np.stack([np.cos(angles), np.sin(angles)], 1)
    chords = np.sqrt(np.maximum(0, 2 - 2 * points @ points.T))
    radius = lambda chosen: chords[:, list(chosen)].min(axis=1).max()  # noqa: E731
    best = min(radius(chosen) for chosen in combinations(range(8), count))
    assert radius(farthest_first(points, count)) <= 2 * best + 1e-6


def test_diverse_rows_through_the_stage_by_words_and_by_states(tmp_path: Path) -> None:
    texts = ["add one to two", "add one to three", "spell the word cat backward", "add one to four"]
    rows = [
        {"id": f"r{n}", "domain": "x", "prompt": text, "answer": "1", "verifier": "exact"}
        for n, text in enumerate(texts)
    ]
    dataset = write_jsonl(tmp_path / "rows", rows)
    found = select(tmp_path / "run", {"name": "diversity", "count": 2}, dataset=dataset)
    assert "r2" in ids(found) and found.metrics["num_rows"] == 2
    model = base_model(tmp_path / "model")
    hidden = {"name": "diversity", "count": 3, "features": "hidden"}
    assert select(tmp_path / "hidden", hidden, dataset=dataset, policy=model).metrics["num_rows"] == 3


def sums(folder: Path, pairs: list[tuple[str, str, str]]) -> Path:
    rows = [
        {"id": name, "domain": name[0], "prompt": prompt, "answer": response, "response": response, "verifier": "exact"}
        for name, prompt, response in pairs
    ]
    return write_jsonl(folder, rows)


PAIRS = [
    ("a1", "What is the sum: 1 + 2 =", "3"),
    ("a2", "What is the sum: 2 + 2 =", "4"),
    ("b1", "Spell backward: cat", "tac"),
    ("b2", "Spell backward: sun", "nus"),
]


def test_influence_is_the_cosine_of_gradients(tmp_path: Path) -> None:
    """The reference: gradients of transformers' own model, whole and in float64."""
    from transformers import AutoModelForCausalLM

    model, targets = base_model(tmp_path / "model"), PAIRS[1:3]
    given = {"policy": model, "dataset": sums(tmp_path / "rows", PAIRS), "targets": sums(tmp_path / "targets", targets)}
    reference = AutoModelForCausalLM.from_pretrained(model).double()
    policy = load_policy(model)

    def gradient(pair: tuple[str, str, str]) -> torch.Tensor:
        (example,) = examples_from_rows(policy.tokenizer, [{"prompt": pair[1], "response": pair[2]}], ends=policy.ends)
        tokens = torch.tensor([example.tokens])
        logprobs = reference(tokens).logits[0, :-1].log_softmax(-1)
        chosen = logprobs.gather(1, tokens[0, 1:, None])[:, 0]
        reference.zero_grad()
        (-chosen[torch.tensor(list(example.loss_mask[1:]))].mean()).backward()
        return torch.cat([weight.grad.flatten() for weight in reference.parameters()])

    goals = [gradient(pair) for pair in targets]
    cosine = torch.nn.functional.cosine_similarity
    mean = [float(cosine(gradient(pair), (goals[0] + goals[1]) / 2, dim=0)) for pair in PAIRS]
    most = [max(float(cosine(gradient(pair), goal, dim=0)) for goal in goals) for pair in PAIRS]
    for domains, expected in {"mean": mean, "max": most}.items():
        selector = {"name": "influence", "share": 1.0, "domains": domains}
        rows = read_rows(select(tmp_path / domains, selector, **given).outputs["dataset"])
        assert [row["scores"]["influence"] for row in rows] == pytest.approx(expected, abs=1e-4)


def test_influence_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    model = base_model(tmp_path / "model")
    given = {"policy": model, "dataset": sums(tmp_path / "rows", PAIRS), "targets": sums(tmp_path / "t", PAIRS[:1])}
    params = {"sources": SOURCE, "selectors": [{"name": "influence", "count": 2, "chunk": 1}], "verifiability": "off"}
    straight = run_stage(COMPONENT, tmp_path / "straight", params=params, inputs=given)
    with pytest.raises(Interrupted):
        run_stage(COMPONENT, tmp_path / "run", params=params, inputs=given, stop_after=1_000_002)
    assert run_stage(COMPONENT, tmp_path / "run", params=params, inputs=given).digests == straight.digests


def test_a_prompt_without_a_response_is_taken_with_its_reference_answer(tmp_path: Path) -> None:
    given = {
        "policy": base_model(tmp_path / "model"),
        "dataset": prompts(tmp_path / "rows"),
        "targets": prompts(tmp_path / "t", "a"),
    }
    found = select(tmp_path / "run", {"name": "influence", "count": 1}, **given)
    assert ids(found) == "a" and read_rows(found.outputs["dataset"])[0]["scores"]["influence"] == pytest.approx(
        1, abs=1e-4
    )


def test_ledgers_that_know_none_of_the_rows_are_refused(tmp_path: Path) -> None:
    given = {"dataset": prompts(tmp_path / "rows"), "ledger": ledger(tmp_path / "ledger", {"z": [(1, 1)]})}
    with pytest.raises(InputError, match="selector learnability: none of 6 rows is in the ledger"):
        select(tmp_path / "run", {"name": "learnability", "count": 1}, **given)
    with pytest.raises(InputError, match="selector weakness: none of 6 rows has enough visits"):
        select(tmp_path / "weak", "weakness", **given)
    (tmp_path / "ledger" / "visits.jsonl").write_text('{"policy": "p"}\n')
    with pytest.raises(InputError, match=r"visits.jsonl:1: not a visit"):
        select(tmp_path / "bad", "weakness", **given)


@pytest.mark.parametrize(
    ("selectors", "said"),
    [
        ([{"name": "learnability"}], "set either count or share"),
        ([{"name": "learnability", "count": 1, "share": 0.5}], "set either count or share"),
        ([{"name": "learnability", "count": 0}], "greater than or equal to 1"),
        ([{"name": "trajectory_match", "threshold": None, "top_share": None}], "set threshold, top_share or both"),
        (["weakness", "weakness"], "'weakness' is there twice"),
    ],
)
def test_settings_that_cannot_be_meant(selectors: list[Any], said: str) -> None:
    with pytest.raises((ValidationError, InputError), match=said):
        params = CurateParams.model_validate({"sources": SOURCE, "selectors": selectors})
        [selector.resolve() for selector in params.selectors]


def test_missing_inputs_are_told_before_the_run() -> None:
    selectors = ["weakness", {"name": "diversity", "count": 2, "features": "hidden"}, {"name": "influence", "count": 1}]
    params = CurateParams.model_validate({"sources": SOURCE, "selectors": selectors})
    assert asks(params) == {
        "ledger": ["selector 'weakness'"],
        "policy": ["selector 'diversity'", "selector 'influence'"],
        "targets": ["selector 'influence'"],
    }
