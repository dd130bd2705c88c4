"""The reward and the metric of n-gram overlap, by hand: the answer alone is compared, with the item's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.contract.operators import OperatorSpec
from components.measure.harness.context import MeasureContext
from components.measure.intervals import Bootstrap
from components.measure.slots import METRIC
from tests.measure.test_outcomes import written
from tests.rl.build import batch_of, context, operator

TEXTS = ("<think>m9 m9<answer>b7 then k2", "b7 then k2", "<think>b7 then k2<answer>x", "<answer>b7 then")
EXPECTED = [1.0, 1.0, 0.0, pytest.approx(0.6065306597, abs=1e-6)]  # exp(1 - 3 / 2) of two words in two


def test_the_reward() -> None:
    batch = batch_of([[0.0] * len(TEXTS)])
    item = batch.prompts[0].item.model_copy(update={"answer": "b7 then k2"})
    batch = replace(batch, texts=TEXTS, prompts=(replace(batch.prompts[0], item=item),))
    assert operator("reward", "ngram_overlap")(batch, context()).tolist() == EXPECTED
    one = operator("reward", "ngram_overlap", overlap={"longest": 1, "unit": "characters"})(batch, context())
    assert one[2] == 0 and one[0] == 1


def test_the_metric_is_the_mean_of_a_prompt() -> None:
    outcome = written("7777", "rrrr")
    item = outcome.item.model_copy(update={"answer": "b7 then k2"})
    outcomes = [replace(outcome, item=item, responses=TEXTS), replace(outcome, responses=TEXTS)]
    nothing = [replace(outcomes[1], item=item.model_copy(update={"answer": ""}))]
    measure = OperatorSpec(name="ngram_overlap").resolve(METRIC)
    found = measure([outcomes[0], *nothing], MeasureContext(bootstrap=Bootstrap(10, 0.95, 0)))
    assert found == {"ngram_overlap": [pytest.approx((2 + 0.6065306597) / 4), None]}
