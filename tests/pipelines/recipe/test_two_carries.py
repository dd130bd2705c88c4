"""A repeat that carries two models in turn, and what begins as nothing: the first round has no such input."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.job import FirstOf, StageRef
from pipelines.language.problems import RecipeErrors
from pipelines.recipe.recipe import load_recipe

RECIPE = """
name: alternating
summary: x
seed: 1
stages:
  a: {uses: sft, in: {model: ./model, dataset: ./rows}}
  b: {uses: sft, in: {model: ./model, dataset: ./rows}}
  turns:
    repeat: 3
    carry: {first: a.model, second: b.model, averages: none, others: none}
    yield: {first: first.model, second: second.model, averages: first.optimizer, others: second.optimizer}
    stages:
      first:
        uses: rl
        in: {model: carry.first, dataset: ./rows, partners: carry.second, optimizer: carry.averages}
        with:
          keep_optimizer: true
          rollout: {name: roles, turns: [{role: x}, {role: y, by: partner, question: "{x}"}]}
      second:
        uses: rl
        in: {model: carry.second, dataset: ./rows, partners: first.model, optimizer: [carry.others, none]}
        with:
          keep_optimizer: true
          rollout: {name: roles, turns: [{role: x, by: partner}, {role: y, question: "{x}"}]}
  end: {uses: rl, in: {model: turns.second, dataset: ./rows, optimizer: turns.others}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "rows").mkdir()
    return tmp_path


def load(folder: Path, text: str):  # type: ignore[no-untyped-def]
    path = folder / "alternating.yaml"
    path.write_text(text)
    return {stage.name: stage for stage in load_recipe(str(path)).stages}


def test_both_models_and_their_averages_go_from_round_to_round(folder: Path) -> None:
    found = load(folder, RECIPE)

    def made(stage: str, port: str) -> list[object]:
        return [
            str(ref.stage) + "." + ref.port for ref in found[stage].inputs.get(port, ()) if isinstance(ref, StageRef)
        ]

    assert [made(f"turns-{n}-first", "model") for n in (1, 2, 3)] == [
        ["a.model"],
        ["turns-1-first.model"],
        ["turns-2-first.model"],
    ]
    assert [made(f"turns-{n}-first", "partners") for n in (1, 2)] == [["b.model"], ["turns-1-second.model"]]
    assert [made(f"turns-{n}-second", "partners") for n in (1, 2)] == [["turns-1-first.model"], ["turns-2-first.model"]]
    assert "optimizer" not in found["turns-1-first"].inputs and "optimizer" not in found["turns-1-second"].inputs
    assert made("turns-2-first", "optimizer") == ["turns-1-first.optimizer"]
    (fallback,) = found["turns-3-second"].inputs["optimizer"]
    assert isinstance(fallback, FirstOf) and fallback.or_none
    assert [ref.stage for ref in fallback.first_of if isinstance(ref, StageRef)] == ["turns-2-second"]
    assert made("end", "optimizer") == ["turns-3-second.optimizer"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            "first: a.model",
            "first: none",
            "input 'model' of stage 'turns.first' is needed, and the first round carries 'none' into it",
        ),
        (
            "second: b.model",
            "second: none",
            "stage 'turns.first': rollout operator 'roles' asks it, and the first round carries none into it",
        ),
        (
            "partners: first.model",
            "partners: [carry.averages]",
            "input 'partners' of stage 'turns.second': rollout operator 'roles' asks it",
        ),
        (
            "partners: first.model",
            "partners: [[first.model, none]]",
            "stage 'turns.second': rollout operator 'roles' asks it, and its fallback may end with none",
        ),
        ("others: second.optimizer", "others: none", "'none' alone is no reference"),
        ("averages: first.optimizer", "averages: first.checkpoints", "takes a Optimizer"),
        ("keep_optimizer: true", "keep_optimizer: false", "output of stage 'turns.first'"),
    ],
)
def test_what_cannot_be_carried_is_one_line(folder: Path, old: str, new: str, why: str) -> None:
    assert old in RECIPE
    with pytest.raises(RecipeErrors) as error:
        load(folder, RECIPE.replace(old, new, 1))
    assert why in str(error.value), str(error.value)


ROWS = """
name: alternating
summary: x
seed: 1
stages:
  a: {uses: sft, in: {model: ./model, dataset: ./rows}}
  turns:
    repeat: 2
    carry: {last: a.model, rows: none}
    yield: {last: learn.model, rows: make.dataset}
    stages:
      learn: {uses: sft, in: {model: carry.last, dataset: carry.rows}}
      make: {uses: synthesize, in: {dataset: ./rows, teachers: learn.model}, with: {generator: rejection}}
"""


def test_rows_that_are_not_there_yet_are_needed_alone_and_not_beside_others(folder: Path) -> None:
    with pytest.raises(RecipeErrors) as error:
        load(folder, ROWS)
    why = "input 'dataset' of stage 'turns.learn' is needed, and the first round carries 'none' into it"
    assert [line for line in str(error.value).splitlines() if why in line] == [str(error.value).strip()]
    found = load(folder, ROWS.replace("dataset: carry.rows", "dataset: [./rows, carry.rows]"))
    assert [len(found[f"turns-{n}-learn"].inputs["dataset"]) for n in (1, 2)] == [1, 2]


@pytest.mark.parametrize(
    ("turn", "partners", "why"),
    [
        ("{role: y, by: partner, model: 1}", "carry.second", "turn y: no model 1 at input partners; there are 1"),
        ("{role: y, by: partner}", "[carry.second, a.model]", "turn y is one of 2 partners'; say which: `model: 0`"),
        ("{role: y, by: partner, model: 1}", "[carry.second, a.model]", None),
    ],
)
def test_partners_are_counted_in_every_round(folder: Path, turn: str, partners: str, why: str | None) -> None:
    text = RECIPE.replace('{role: y, by: partner, question: "{x}"}', f'{turn[:-1]}, question: "{{x}}"}}')
    text = text.replace("partners: carry.second", f"partners: {partners}")
    if why is None:
        load(folder, text)
        return
    with pytest.raises(RecipeErrors) as error:
        load(folder, text)
    assert why in str(error.value), str(error.value)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("with: {lora: {}}", "input 'optimizer' holds averages of all weights, and `lora` trains others"),
        ("backend: {trainer: fsdp}", "input 'optimizer': this trainer divides the averages over ranks"),
        ("backend: {trainer: deepspeed, zero_stage: 1}", "input 'optimizer': this trainer divides the averages"),
    ],
)
def test_who_goes_on_with_averages_has_to_train_all_weights_in_one_place(folder: Path, words: str, why: str) -> None:
    start, end = RECIPE.rsplit("optimizer: turns.others}", 1)
    with pytest.raises(RecipeErrors) as error:
        load(folder, f"{start}optimizer: turns.others}}, {words}{end}")
    assert [line.count(why) for line in str(error.value).splitlines()] == [1], str(error.value)
    load(folder, f"{start.removesuffix(', ')}}}, {words}{end}")
