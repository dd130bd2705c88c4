"""Names of the evaluated models: those of one matrix stay apart, those of several seeds do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from pipelines.report.collect import Evaluation, RunData, Stage
from pipelines.summary import results_table


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


def test_the_screen_shows_the_names_whole(tmp_path: Path) -> None:
    files = {"metrics": tmp_path}
    (tmp_path / "metrics.json").write_text("{}")
    cells = [Stage(f"eval-arm-{arm}", "evaluate", "eval", {"arm": arm}, [], None, files=files) for arm in ("x", "y")]
    table = results_table(RunData({}, None, cells))
    console = Console(width=80)
    with console.capture() as shown:
        console.print(table)
    assert "eval [arm=x]" in shown.get()
    assert "eval [arm=y]" in shown.get()
