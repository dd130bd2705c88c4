"""Names of the evaluated models: those of one matrix stay apart, those of several seeds do not."""

from __future__ import annotations

import pytest

from pipelines.report.collect import Evaluation, Stage


def evaluation(source: str, **labels: str | int) -> Evaluation:
    """Return an evaluation, by a stage with labels, of what another stage made."""
    entry = {"inputs": {"model": [{"source": source}]}}
    return Evaluation("eval", [Stage("eval", "evaluate", "eval", labels, [], entry)])


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (evaluation("rl.model"), "rl"),
        (evaluation("rl-seed-2.model", seed=2), "rl"),
        (evaluation("rl-seed-0-pair-vllm.model", seed=0, pair="vllm"), "rl [pair=vllm]"),
        (evaluation("rl-pair-vllm-seed-0.model", seed=0, pair="vllm"), "rl [pair=vllm]"),
        (evaluation("sft.model", arm="dapo"), "sft [arm=dapo]"),
        (Evaluation("eval", [Stage("eval-arm-x", "evaluate", "eval", {"arm": "x"}, [], None)]), "eval [arm=x]"),
    ],
)
def test_models_of_a_matrix_have_names_of_their_own(found: Evaluation, expected: str) -> None:
    assert found.model == expected
