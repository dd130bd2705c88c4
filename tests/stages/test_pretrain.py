from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from components.contract.errors import InputError
from components.modeling.loading.load import load_policy
from components.pretrain.component import COMPONENT
from tests.stages.supervised_data import SMALL, demonstrations, demonstrations_folder
from tests.support.stage_context import Finished, Interrupted, run_stage, write_jsonl

OPTIMIZER = {"name": "muon", "peak_learning_rate": 0.05, "schedule": "cosine"}
PARAMS = {
    "steps": 20,
    "batch_size": 8,
    "checkpoint_every": 6,
    "architecture": SMALL.model_dump(),
    "optimizer": OPTIMIZER,
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demonstrations_folder(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def straight(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_stage(COMPONENT, tmp_path_factory.mktemp("run"), params=PARAMS, inputs={"dataset": corpus})


def test_a_model_and_its_tokenizer_come_out_of_a_corpus(straight: Finished) -> None:
    assert straight.history[-1]["loss"] < 0.8 * straight.history[0]["loss"]
    model = AutoModelForCausalLM.from_pretrained(straight.outputs["model"])
    tokenizer = AutoTokenizer.from_pretrained(straight.outputs["model"])
    assert straight.metrics["vocab_size"] == model.config.vocab_size == len(tokenizer)
    assert tokenizer.tokenize("What is the sum: 3 + 4 =")[:2] == ["What is the sum: ", "3"]


def test_every_token_is_a_target(corpus: Path, tmp_path: Path) -> None:
    finished = run_stage(
        COMPONENT, tmp_path, params={**PARAMS, "steps": 1, "batch_size": 48}, inputs={"dataset": corpus}
    )
    tokenizer = AutoTokenizer.from_pretrained(finished.outputs["model"])
    texts = [f"{row['prompt']}\n{row['response']}" for row in demonstrations()]
    assert finished.metrics["num_targets"] == sum(len(tokenizer.encode(text)) for text in texts)


def test_resumed_equals_straight(corpus: Path, straight: Finished, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        run_stage(COMPONENT, tmp_path, params=PARAMS, inputs={"dataset": corpus}, stop_after=12)
    resumed = run_stage(COMPONENT, tmp_path, params=PARAMS, inputs={"dataset": corpus})
    assert resumed.digests == straight.digests


def test_a_given_model_is_continued_with_its_own_tokenizer(corpus: Path, straight: Finished, tmp_path: Path) -> None:
    texts = [{"id": str(i), "domain": "text", "text": f"{i} and {i + 1}"} for i in range(30)]
    inputs: dict[str, Any] = {
        "model": straight.outputs["model"],
        "dataset": [corpus, write_jsonl(tmp_path / "texts", texts)],
        "validation": corpus,
    }
    params = {"steps": 8, "batch_size": 8, "optimizer": {"peak_learning_rate": 0.003}}
    finished = run_stage(COMPONENT, tmp_path / "run", params=params, inputs=inputs)
    old, new = (AutoTokenizer.from_pretrained(f) for f in (straight.outputs["model"], finished.outputs["model"]))
    assert new.get_vocab() == old.get_vocab()
    assert finished.metrics["num_examples"] == 78
    assert finished.history[0]["loss_sums"] < straight.history[0]["loss_sums"]  # it did not start anew


def test_long_texts_are_split_not_dropped(tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "data", [{"id": "1", "domain": "text", "text": "abcdefghij" * 10}])
    params = {**PARAMS, "steps": 1, "batch_size": 10, "max_tokens": 11}
    finished = run_stage(COMPONENT, tmp_path / "run", params=params, inputs={"dataset": data})
    assert finished.metrics["num_examples"] == 10
    assert finished.metrics["num_targets"] == 100  # 99 characters after the first, and eos
    assert finished.metrics["num_overlong"] == 0


def test_the_first_bad_row_is_named(tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "data", [{"id": "q7", "answer": "2"}])
    with pytest.raises(InputError, match=r"'q7' cannot be trained on"):
        run_stage(COMPONENT, tmp_path / "run", params=PARAMS, inputs={"dataset": data})


def test_the_model_output_runs_natively(straight: Finished) -> None:
    assert load_policy(straight.outputs["model"]).backend == "native"
