"""Rows that are longer than a model or a setting allows, through the stages that read rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.contract.component import Component
from components.contract.errors import InputError
from components.contract.names import load_target
from components.evaluate.component import COMPONENT as EVALUATE
from components.modeling.loading.load import load_policy, new_policy
from components.modeling.supervised.examples import Example
from components.modeling.text.overlong import Limit, sort_overlong
from components.modeling.text.prompting import encode_prompt
from components.modeling.text.tokenizer import train_tokenizer
from components.preference.component import COMPONENT as PREFERENCE
from components.reward_model.component import COMPONENT as REWARD_MODEL
from components.rl.component import COMPONENT as RL
from components.sft.component import COMPONENT as SFT
from components.sft.reading import cut_left
from tests.stages.supervised_data import SMALL
from tests.support.stage_context import Finished, Lines, LocalContext, write_jsonl

POSITIONS = 48
SHORT, LONG = "1+1=", "1+1=" * 30
ONE_STEP = {"steps": 1, "batch_size": 2, "checkpoint_every": 0}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_tokenizer([], {"sums": [SHORT]})
    new_policy(SMALL.model_copy(update={"max_positions": POSITIONS}), tokenizer=tokenizer, seed=0).save(folder)
    return folder


def row(kind: str, name: str, prompt: str) -> dict[str, Any]:
    asked = {"id": name, "domain": "sums", "prompt": prompt}
    more: dict[str, dict[str, Any]] = {
        "prompts": {"answer": "2", "verifier": "exact"},
        "demonstrations": {"response": "2"},
        "pairs": {"chosen": "2", "rejected": "3"},
    }
    return {**asked, **more[kind]}


STAGES: dict[str, tuple[Component, str, dict[str, Any]]] = {
    "sft": (SFT, "demonstrations", ONE_STEP),
    "preference": (PREFERENCE, "pairs", ONE_STEP),
    "reward_model": (REWARD_MODEL, "pairs", {**ONE_STEP, "holdout": 0.0}),
    "evaluate": (EVALUATE, "prompts", {"num_samples": 2, "max_new_tokens": 4, "bootstrap_samples": 100}),
    "rl": (
        RL,
        "prompts",
        {"steps": 1, "prompts_per_step": 2, "group_size": 2, "max_new_tokens": 4, "save_every": 0},
    ),
}


def run(stage: str, folder: Path, model: Path, prompts: list[str], **params: Any) -> tuple[Finished, list[str]]:
    component, kind, common = STAGES[stage]
    data = write_jsonl(folder / "data", [row(kind, f"p{at}", prompt) for at, prompt in enumerate(prompts)])
    context = LocalContext(
        component, folder / "run", params={**common, **params}, inputs={"model": model, "dataset": data}
    )
    load_target(component.run, component.name)(context)
    return context.finish(), context.lines


@pytest.mark.parametrize("stage", STAGES)
def test_a_long_row_is_left_out_cut_or_refused_and_named(stage: str, model: Path, tmp_path: Path) -> None:
    prompts = [SHORT, f"{SHORT} ", LONG, f" {SHORT}"]
    name = "prompt p2" if stage in ("evaluate", "rl") else "rows.jsonl:3"
    dropped, lines = run(stage, tmp_path / "drop", model, prompts)
    assert dropped.metrics["num_overlong"] == 1 and "num_cut" not in dropped.metrics
    assert any(name in line and "1 left out" in line and f"{POSITIONS} positions" in line for line in lines), lines
    cut, lines = run(stage, tmp_path / "cut", model, prompts, overlong="truncate_left")
    assert cut.metrics["num_cut"] == 1 and not cut.metrics.get("num_overlong")
    assert any(name in line and "1 cut on the left" in line for line in lines), lines
    with pytest.raises(InputError, match=f"{name} has .* tokens.*set overlong: drop or truncate_left") as caught:
        run(stage, tmp_path / "refuse", model, prompts, overlong="refuse")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"none of 2 .* has at most .*the first"):
        run(stage, tmp_path / "none", model, [LONG, f" {LONG}"])


@pytest.mark.parametrize("stage", ["sft", "evaluate"])
def test_what_is_cut_is_the_same_as_the_short_row_that_is_left(stage: str, model: Path, tmp_path: Path) -> None:
    """The model reads the last tokens alone: a row of just those gives the same numbers."""
    tokenizer = load_policy(model).tokenizer
    assert tokenizer is not None
    lines = len(encode_prompt(tokenizer, "1")) - 1
    response = 4 if stage == "evaluate" else 2
    left = LONG[len(LONG) - (POSITIONS - response - lines) :]
    assert len(encode_prompt(tokenizer, left)) == POSITIONS - response
    long, _ = run(stage, tmp_path / "long", model, [LONG], overlong="truncate_left")
    short, _ = run(stage, tmp_path / "short", model, [left], overlong="refuse")
    name = "loss" if stage == "sft" else "mean_tokens"
    assert long.metrics["num_cut"] == 1 and long.metrics[name] == short.metrics[name]


def test_sorting_by_length() -> None:
    lines = Lines()
    options: dict[str, Any] = {"names": lambda index: f"row {index}", "what": "rows"}
    limit = Limit(5, "max_tokens 5")
    assert sort_overlong([3, 5], limit, "refuse", lines, **options).kept == [0, 1] and not lines
    sort = sort_overlong([9, 5, 8, 7], limit, "truncate_left", lines, cuttable=lambda index: index != 2, **options)
    assert (sort.kept, sort.cut, sort.dropped) == ([0, 1, 3], {0, 3}, [2])
    assert sort.metrics("_validation") == {"num_overlong_validation": 1.0, "num_cut_validation": 2.0}
    (line,) = lines
    assert (
        line
        == "3 of 4 rows exceed 5 (max_tokens 5) tokens: 2 cut on the left and 1 left out; the first, row 0 has 9 tokens"
    )


@pytest.mark.parametrize(
    ("mask", "room", "left"),
    [
        ("....11", 3, ".11"),
        ("....11", 2, None),  # nothing would be left to answer
        ("..11..11", 5, "...11"),  # a turn that lost its beginning is context
        ("..11..11", 6, "....11"),
        ("..11..11", 7, ".11..11"),
        ("111111", 3, None),
    ],
)
def test_the_last_turn_stays_whole(mask: str, room: int, left: str | None) -> None:
    example = Example(list(range(len(mask))), [mark == "1" for mark in mask])
    cut = cut_left(example, room)
    if left is None:
        assert cut is None
        return
    assert cut is not None and list(cut.tokens) == list(range(len(mask)))[-room:]
    assert "".join("1" if target else "." for target in cut.loss_mask) == left
