"""What the preference stage refuses, with one line, and what its declaration knows: forks and memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.contract.forking import Held
from components.contract.job import Resources
from components.modeling.loading.load import new_policy
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.text.tokenizer import train_tokenizer
from components.preference.component import COMPONENT
from components.preference.forking import misfits
from components.preference.params import PreferenceParams
from tests.stages.preference.data import labelled, pairs, pairs_folder
from tests.stages.supervised_data import SMALL, base_model
from tests.support.stage_context import run_stage


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("inputs")
    return {"model": base_model(folder / "model"), "dataset": pairs_folder(folder / "data")}


def of_rows(**changes: Any) -> list[dict[str, Any]]:
    return [{name: value for name, value in {**row, **changes}.items() if value is not None} for row in pairs(4)]


BAD: list[tuple[dict[str, Any], list[dict[str, Any]], str]] = [
    ({}, of_rows(rejected=None), r"rows\.jsonl:1: no rejected: a row of preferences has chosen, rejected"),
    ({}, [{"prompt": "?", "response": "!"}], "no chosen and no rejected"),
    ({"preference_loss": "step_apo"}, of_rows(margin=None), "no margin, which preference_loss 'step_apo' reads"),
    ({"preference_loss": "kto"}, [{**row, "label": 3} for row in labelled(4)], "label 3 is neither true nor false"),
    (
        {"preference_loss": "kto"},
        [{"prompt": "?", "completion": "!", "score": 1.0}],
        "no label, which preference_loss 'kto' reads",
    ),
    ({"preference_loss": "ranking"}, labelled(4), "no score, which preference_loss 'ranking' reads"),
    (
        {"preference_loss": "ranking"},
        [{"prompt": str(number), "completion": "!", "score": 1.0} for number in range(3)],
        "there is nothing to compare: 0 bad rows, 3 lists that rank nothing",
    ),
    ({}, of_rows(weight=0), "there is nothing to compare: 0 bad rows, 0 lists that rank nothing, 4 of weight 0"),
    (
        {"preference_loss": "kto"},
        [{"prompt": "?", "completion": text, "label": True} for text in "ab"],
        "all rows ask the same",
    ),
    (
        {"max_tokens": 2},
        pairs(4),
        r"none of 4 examples has at most 2 \(max_tokens 2\) tokens; the first, rows.jsonl:1 has",
    ),
]


@pytest.mark.parametrize(("params", "rows", "told"), BAD)
def test_bad_input_gets_one_line(
    inputs: dict[str, Any], tmp_path: Path, params: dict[str, Any], rows: list[dict[str, Any]], told: str
) -> None:
    given = inputs | {"dataset": pairs_folder(tmp_path / "data", rows)}
    with pytest.raises(InputError, match=told) as raised:
        run_stage(COMPONENT, tmp_path / "run", params={"steps": 1, **params}, inputs=given)
    assert "\n" not in str(raised.value)


def test_a_reference_with_another_tokenizer_is_refused(inputs: dict[str, Any], tmp_path: Path) -> None:
    tokenizer = train_tokenizer([], {"other": ["A quite different prompt"]})
    new_policy(SMALL, tokenizer=tokenizer, seed=0).save(tmp_path / "other")
    with pytest.raises(
        InputError, match=r"reference: it has another tokenizer: token .* is .* in the model and"
    ) as raised:
        run_stage(COMPONENT, tmp_path / "run", params={"steps": 1}, inputs=inputs | {"reference": tmp_path / "other"})
    assert "\n" not in str(raised.value)


def test_parameters_are_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="'kto' estimates a divergence from other rows of the batch; set batch_size"):
        PreferenceParams.model_validate({"preference_loss": "kto", "batch_size": 1})
    assert COMPONENT.asks is not None
    assert COMPONENT.asks(PreferenceParams()) == {"reference": []}
    assert COMPONENT.asks(PreferenceParams.model_validate({"preference_loss": "orpo"})) == {}


def test_forks_may_change_the_loss_where_the_checkpoint_serves_it() -> None:
    def of(loss: str, before: str = "dpo", **more: Any) -> list[str]:
        held = Held(4, frozenset({"tensors-reference.safetensors"} if before in ("dpo", "kto") else ()))
        old = PreferenceParams.model_validate({"steps": 8, "preference_loss": before})
        return list(misfits(old, PreferenceParams.model_validate({"steps": 8, "preference_loss": loss, **more}), held))

    assert of("ipo") == of("simpo") == of("dpo", optimizer={"peak_learning_rate": 0.1}) == []
    assert "compares labels" in of("kto")[0]
    assert "the checkpoint does not hold it" in of("dpo", before="simpo")[0]
    assert "which rows" in of("dpo", batch_size=3)[0]


def test_memory_counts_both_sides_and_a_reference() -> None:
    sizes = ModelSizes.from_config(
        {
            "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 4, "intermediate_size": 128, "vocab_size": 1000, "max_position_embeddings": 512,
        }
    )  # fmt: skip
    assert sizes is not None and COMPONENT.memory is not None and COMPONENT.further_memory is not None
    resources = Resources()
    both = COMPONENT.memory(PreferenceParams(batch_size=2, max_tokens=256), sizes, resources)
    single = COMPONENT.memory(
        PreferenceParams.model_validate({"batch_size": 2, "max_tokens": 256, "preference_loss": "kto"}),
        sizes,
        resources,
    )
    needs = {need.name: need.size for need in both.needs}
    assert needs["activations"] == 2 * {need.name: need.size for need in single.needs}["activations"]
    reference = list(COMPONENT.further_memory("reference", sizes, PreferenceParams(), resources))
    assert reference[0].size == 4 * sizes.parameters
