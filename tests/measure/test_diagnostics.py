"""Diagnostics on outcomes written by hand: numbers worked out or from sklearn, and what cannot be read is counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.measure.harness.context import Baseline, MeasureContext
from components.measure.harness.views import View
from components.measure.intervals import Bootstrap, Interval
from components.measure.ledger import pass_rate_row, write_ledger
from components.measure.outcomes import ItemOutcomes
from components.measure.slots import DIAGNOSTIC, METRIC, STRATEGY
from tests.measure.test_outcomes import written

CONTEXT = MeasureContext(bootstrap=Bootstrap(300, 0.95, 0))


def stating(confidences: list[str], outcomes: str, name: str = "p") -> ItemOutcomes:
    """Responses that state these confidences, each with a verdict."""
    plain = written("7" * len(outcomes), outcomes)
    responses = tuple(f"<answer>7</answer>{text}" for text in confidences)
    return replace(plain, item=plain.item.model_copy(update={"id": name}), responses=responses)


def diagnose(name: str, outcomes: list[ItemOutcomes], context: MeasureContext = CONTEXT, **settings: Any) -> View:
    bound = OperatorSpec.model_validate({"name": name, **settings}).resolve(DIAGNOSTIC)
    view = bound({"A": outcomes}, context)
    assert isinstance(view, View)
    return view


def value(view: View, name: str) -> float:
    found = view.metrics[name]
    return found.value if isinstance(found, Interval) else found


def test_stated_confidence_by_hand_and_by_sklearn() -> None:
    first = stating(["<conf>9", "<conf>8", "<conf>3", "<conf>1"], "rwww", "a")
    view = diagnose("verbal_confidence", [first], scale=10, bins=2)
    # bin (0, .5]: stated .2, right 0; bin (.5, 1]: stated .85, right .5
    assert value(view, "verbal_ece_A") == pytest.approx(0.5 * 0.2 + 0.5 * 0.35)
    stated, right = np.array([0.9, 0.8, 0.3, 0.1]), np.array([1, 0, 0, 0])
    assert value(view, "verbal_auroc_A") == pytest.approx(roc_auc_score(right, stated))
    assert value(view, "verbal_brier_A") == pytest.approx(brier_score_loss(right, stated))
    assert value(view, "verbal_mean_A") == pytest.approx(0.525)
    (line,) = view.charts[0].lines
    assert [point for point, _ in line.points] == pytest.approx([0.2, 0.85]) and line.marks


def test_what_is_not_stated_and_what_lies_outside_is_counted() -> None:
    one = stating(["<conf>0.5", "", "<conf>1.5", "<conf>0.5", "<conf>0.9"], "rwrwf")
    view = diagnose("verbal_confidence", [one])
    assert (value(view, "verbal_unstated_A"), value(view, "verbal_outside_A")) == (1, 1)
    assert value(view, "verbal_brier_A") == pytest.approx(0.25), "over the two judged ones that state it"
    score = OperatorSpec(name="verbal_brier").resolve(METRIC)([one], CONTEXT)["verbal_score"]
    assert score == [pytest.approx((0.25 + 1 + 1 + 0.25) / 4)], "silence has the worst score"


def test_abstentions_are_no_answers() -> None:
    plain = written("7777", "rwww")
    one = replace(plain, responses=("<answer>7", "<answer>I don't know.", "<answer>UNKNOWN", "<answer>8"))
    view = diagnose("verbal_confidence", [one])
    assert value(view, "abstained_A") == 0.5 and value(view, "answered_right_A") == 0.5
    assert value(view, "wrong_answered_A") == 0.25 and "verbal_ece_A" not in view.metrics


def test_one_class_has_no_auroc_and_intervals_hold_the_value() -> None:
    view = diagnose("verbal_confidence", [stating(["<conf>0.9"] * 4, "rrrr", str(k)) for k in range(5)])
    assert "verbal_auroc_A" not in view.metrics
    mixed = [
        stating(["<conf>0.7", "<conf>0.2"], outcomes, str(k)) for k, outcomes in enumerate(["rw", "rr", "ww", "wr"])
    ]
    found = diagnose("verbal_confidence", mixed).metrics["verbal_ece_A"]
    assert isinstance(found, Interval) and found.low <= found.value <= found.high and found.n == 4


def against(folder: Path, base: list[ItemOutcomes]) -> MeasureContext:
    """The context of an evaluation whose baseline has these outcomes."""
    write_ledger(folder, [pass_rate_row(one) for one in base])
    return replace(CONTEXT, baseline=Baseline(folder))


def named(outcomes: str, name: str) -> ItemOutcomes:
    one = written("7" * len(outcomes), outcomes)
    return replace(one, item=one.item.model_copy(update={"id": name}))


def test_the_boundary_by_hand(tmp_path: Path) -> None:
    base = [named("rwww", "a"), named("wrww", "b"), named("wwww", "c"), named("rfww", "d")]
    ours = [named("rrrr", "a"), named("wwww", "b"), named("wwww", "c"), named("rrrr", "d"), named("rrrr", "e")]
    view = diagnose("boundary", ours, against(tmp_path, base))
    # of a, b and c: base pass@1 1/6, pass@2 1/3, pass@4 2/3; ours 1/3 at every k
    assert value(view, "crossover_k_A") == 2 and value(view, "crosses_A") == 1
    cells = [value(view, f"solved_{cell}_A") for cell in ("both", "base_only", "here_only", "none")]
    assert cells == [1, 1, 0, 1]
    assert value(view, "gap_to_base_A") == pytest.approx(2 / 3 - 1 / 3)
    assert value(view, "boundary_unpaired_A") == 2, "d failed once, e is new"
    assert "reference_perplexity_A" not in view.metrics


def test_support_by_hand_and_with_a_smaller_budget(tmp_path: Path) -> None:
    base = [named("rwww", "a"), named("rrww", "b"), named("wwww", "c")]
    ours = [named("wwww", "a"), named("rrrr", "b"), named("wwww", "c")]
    view = diagnose("support", ours, against(tmp_path, base))
    assert [value(view, f"support_{cell}_A") for cell in ("preserved", "shrunk", "expanded", "out")] == pytest.approx(
        [1 / 3, 1 / 3, 0, 1 / 3]
    )
    assert value(view, "support_srr_A") == 0.5 and value(view, "support_nscr_A") == pytest.approx(-0.5)
    view = diagnose("support", ours, against(tmp_path, base), k=2)
    # base pass@2: a 1/2, b 5/6
    assert value(view, "support_shrunk_A") == pytest.approx((1 / 2) / 3)
    assert value(view, "support_preserved_A") == pytest.approx((5 / 6) / 3)
    assert value(view, "support_expanded_A") == pytest.approx((1 / 6) / 3)


def test_without_a_shared_prompt_nothing_is_said(tmp_path: Path) -> None:
    context = against(tmp_path, [named("rw", "x")])
    for name in ("boundary", "support"):
        with pytest.raises(InputError, match=f"diagnostic {name}: the baseline shares no verified prompt"):
            diagnose(name, [named("rw", "y")], context)


def test_diversity_falls_where_a_prompt_repeats_itself() -> None:
    same = [
        replace(named("rr", "a"), responses=("a b c d e f",) * 2),
        replace(named("rr", "b"), responses=("u v w x y z",) * 2),
    ]
    view = diagnose("diversity", same)
    assert value(view, "ead_within_A") == pytest.approx(0.5, abs=0.01)
    assert value(view, "ead_across_A") == pytest.approx(1.0, abs=0.01)


def test_votes_by_stated_confidence() -> None:
    """Two wrong sevens that are unsure lose against one sure eight."""
    plain = written("778", "wwr")
    texts = ("<answer>7</answer><conf>0.2", "<answer>7</answer><conf>0.3", "<answer>8</answer><conf>0.9")
    one = replace(plain, responses=texts)
    ways = {name: OperatorSpec(name=name).resolve(STRATEGY)([one], CONTEXT) for name in ("majority", "weighted_vote")}
    assert [ways[name][3].accuracy for name in ways] == [[0.0], [1.0]]
    best = OperatorSpec(name="best_of_n").resolve(STRATEGY)([one], CONTEXT)
    assert best[3].accuracy == [1.0] and best[1].accuracy == [pytest.approx(1 / 3)]
    assert best[2].accuracy == [pytest.approx(2 / 3)] and best[2].tokens == [pytest.approx(2 * 2.0)]
