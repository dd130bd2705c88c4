"""Asked again with the options in another order: a model that reads them, and one that only knows a position."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from components.evaluate.component import COMPONENT
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.text.tokenizer import train_tokenizer
from components.tasks.item import Item, item_id
from components.tasks.options import LETTERS, chosen_option, reordered, same_thought
from components.tasks.sources.worlds.choice import choice_prompt
from tests.stages.toy_models import train
from tests.support.stage_context import run_stage, write_jsonl

PARAMS = {"num_samples": 2, "max_new_tokens": 6, "bootstrap_samples": 100, "metrics": ["shuffle_consistency"]}


def row(options: tuple[str, ...], domain: str = "choice") -> dict[str, Any]:
    """The right option is always `7`, wherever it stands."""
    prompt, answer = choice_prompt("seven", options), LETTERS[options.index("7")]
    data = {"options": list(options), "question": "seven"}
    fields = {"domain": domain, "prompt": prompt, "answer": answer, "verifier": "choice", "data": data}
    return {"id": item_id(domain, prompt, answer), **fields}


ROWS = [row(options) for other in "45" for options in permutations(("7", other))]


def taught(folder: Path, response: Any) -> Path:
    """A model that answers every row as told."""
    tokenizer = train_tokenizer([], {"choice": [one["prompt"] + "<answer>A" for one in ROWS]})
    policy = new_policy(ModelConfig(width=32, layers=2, heads=2, mlp_width=64), tokenizer=tokenizer, seed=1)
    train(policy, [{**one, "response": response(one)} for one in ROWS] * 6, 40, peak_learning_rate=2e-2)
    folder.mkdir()
    policy.save(folder)
    return folder


@pytest.mark.parametrize(
    ("response", "consistent", "right"),
    [(lambda one: f"<answer>{one['answer']}", 1.0, 1.0), (lambda one: "<answer>A", 0.0, 0.5)],
    ids=["reads", "position"],
)
def test_what_a_model_goes_by(response: Any, consistent: float, right: float, tmp_path: Path) -> None:
    """Two options always change places, so a model that goes by position never says the same twice."""
    model, dataset = taught(tmp_path / "model", response), write_jsonl(tmp_path / "rows", ROWS)
    done = run_stage(COMPONENT, tmp_path / "run", params=PARAMS, inputs={"model": model, "dataset": dataset})
    assert done.metrics["consistency_asked_choice"] > 0.9
    assert done.metrics["consistency_choice"] == pytest.approx(consistent, abs=0.1)
    assert done.metrics["shuffled_right_choice"] == pytest.approx(right, abs=0.1)


def test_the_options_change_places_and_letters_mean_the_same() -> None:
    item = Item.model_validate(row(("7", "4", "5")))
    again = reordered(item, [2, 0, 1])
    assert again is not None
    assert (again.prompt, again.answer, again.data["options"]) == ("seven A:5 B:7 C:4", "B", ["5", "7", "4"])
    assert chosen_option(item, "<answer>A") == 0 and chosen_option(again, "<answer>B") == 1
    assert chosen_option(item, "<answer>none of them") is None
    thought = "I think A is a good one, not C. A cat<answer>A"
    assert same_thought(thought, [2, 0, 1]) == "I think A is a good one, not A. A cat"


def test_prompts_of_other_forms_and_without_options() -> None:
    fields = {"id": "x", "domain": "d", "answer": "(B)", "verifier": "choice"}
    item = Item(prompt="Which?\n(A) a.b\n(B) c (d)\nAnswer:", data={"options": ["a.b", "c (d)"]}, **fields)
    again = reordered(item, [1, 0])
    assert again is not None and again.prompt == "Which?\n(A) c (d)\n(B) a.b\nAnswer:" and again.answer == "A"
    assert reordered(item.model_copy(update={"prompt": "Which?"}), [1, 0]) is None
    assert reordered(item.model_copy(update={"answer": "Z"}), [1, 0]) is None
    assert reordered(item.model_copy(update={"data": {}}), [1, 0]) is None


def test_what_cannot_be_asked_again_is_counted(tmp_path: Path) -> None:
    plain = [
        {**one, "domain": "plain", "verifier": "exact", "data": {}, "id": f"p{place}"} for place, one in enumerate(ROWS)
    ]
    model, dataset = taught(tmp_path / "model", lambda one: "<answer>A"), write_jsonl(tmp_path / "rows", plain)
    done = run_stage(COMPONENT, tmp_path / "run", params=PARAMS, inputs={"model": model, "dataset": dataset})
    assert done.metrics["consistency_asked_plain"] == 0.0 and "consistency_plain" not in done.metrics
