"""Names of the evaluated models: those of one matrix stay apart, those of several seeds do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from components.contract.registry import components
from pipelines.report.collect import RunData, Stage
from pipelines.report.evaluations import Evaluation, result_tables
from pipelines.runs.summary import results_table

RESULTS = components().get("evaluate").results


def evaluation(source: str, **labels: str | int) -> Evaluation:
    """Return an evaluation, by a stage with labels, of what another stage made."""
    entry = {"inputs": {"model": [{"source": source}]}}
    return Evaluation("eval", [Stage("eval", "evaluate", "eval", labels, [], entry)], RESULTS)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (evaluation("rl.model"), "rl"),
        (evaluation("rl-seed-2.model", seed=2), "rl"),
        (evaluation("rl-seed-0-pair-vllm.model", seed=0, pair="vllm"), "rl [pair=vllm]"),
        (evaluation("rl-pair-vllm-seed-0.model", seed=0, pair="vllm"), "rl [pair=vllm]"),
        (evaluation("sft.model", arm="dapo"), "sft [arm=dapo]"),
        (
            Evaluation("eval", [Stage("eval-arm-x", "evaluate", "eval", {"arm": "x"}, [], None)], RESULTS),
            "eval [arm=x]",
        ),
    ],
)
def test_models_of_a_matrix_have_names_of_their_own(found: Evaluation, expected: str) -> None:
    assert found.model == expected


def test_the_screen_shows_the_names_whole(tmp_path: Path) -> None:
    files = {"metrics": tmp_path}
    (tmp_path / "metrics.json").write_text("{}")
    cells = [Stage(f"eval-arm-{arm}", "evaluate", "eval", {"arm": arm}, [], None, files=files) for arm in ("x", "y")]
    (found,) = result_tables(RunData({}, None, cells))
    console = Console(width=80)
    with console.capture() as shown:
        console.print(results_table(found))
    assert "eval [arm=x]" in shown.get()
    assert "eval [arm=y]" in shown.get()


def measured(stage: str, params: dict[str, object], dataset: str = "heldout.dataset") -> Stage:
    """Return an evaluation of rl's model."""
    inputs = {"model": [{"source": "rl.model"}], "dataset": [{"source": dataset}]}
    entry = {"inputs": inputs, "params": params, "metrics": {"pass_at_1_sums": 0.5}, "status": "done", "cache": "miss"}
    return Stage(stage, "evaluate", stage, {}, [], entry, files={"none": Path("/nowhere")})


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ([measured("hot", {"temperature": 1.0, "k": 8}), measured("cold", {"temperature": 0.2, "k": 8})],
         ["rl (temperature=1.0)", "rl (temperature=0.2)"]),
        ([measured("plain", {}), measured("cold", {"sampler": {"temperature": 0.2}})],
         ["rl (sampler.temperature=default)", "rl (sampler.temperature=0.2)"]),
        ([measured("one", {}), measured("two", {}, "other.dataset")],
         ["rl (dataset=heldout.dataset)", "rl (dataset=other.dataset)"]),
        ([measured("one", {}), measured("two", {})], ["rl (one)", "rl (two)"]),
        ([measured("one", {"a": 1, "b": 1, "c": 1}), measured("two", {"a": 2, "b": 2, "c": 2})],
         ["rl (one)", "rl (two)"]),
        ([measured("only", {"temperature": 1.0})], ["rl"]),
    ],
)  # fmt: skip
def test_rows_of_one_model_say_in_what_they_differ(stages: list[Stage], expected: list[str]) -> None:
    (found,) = result_tables(RunData({}, None, stages))
    assert [item.model for item in found.evaluations] == expected
    console = Console(width=120)
    with console.capture() as shown:
        console.print(results_table(found))
    assert all(name in shown.get() for name in expected)
