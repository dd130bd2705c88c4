"""Further models from their weights: text in, text or a likelihood out, by the tokenizer of each."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
import torch

from components.contract.job import Resources
from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.serving.local import LocalModel
from components.modeling.serving.models import Drawing, Likelihood
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from tests.stages.rl_stage import make_model

PAIRS = [("letter 1", "abc"), ("letter 2", ""), ("letter 1", "abc"), ("letter 2", "b")]


def opened(folder: Path) -> LocalModel:
    return LocalModel("judge.model", folder, device="cpu", dtype="float32", resources=Resources())


def test_a_likelihood_is_the_sum_of_the_text_s_own_tokens(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model")
    found = opened(folder).score(PAIRS)
    policy = load_policy(folder)
    assert policy.tokenizer is not None
    prompt = policy.tokenizer("letter 1\n", add_special_tokens=False)["input_ids"]
    text = policy.tokenizer("abc", add_special_tokens=False)["input_ids"]
    from transformers import AutoModelForCausalLM

    other = AutoModelForCausalLM.from_pretrained(folder)  # another implementation of the same weights
    with torch.no_grad():
        logprobs = other(torch.tensor([prompt + text])).logits[0].log_softmax(-1)
    wanted = sum(float(logprobs[len(prompt) - 1 + at, token]) for at, token in enumerate(text))
    assert found[0] == Likelihood(pytest.approx(wanted, abs=1e-4), len(text)) == found[2]
    assert found[1] == Likelihood(0.0, 0)


def test_models_of_other_vocabularies_score_the_same_text(tmp_path: Path) -> None:
    phrases = train_tokenizer([string.ascii_letters, "abcabc abcabc"], {}, TokenizerConfig(phrases=False))
    sizes = ModelConfig(width=16, layers=1, heads=2, mlp_width=24)
    new_policy(sizes, tokenizer=phrases, seed=1).save(tmp_path / "other")
    for folder in (make_model(tmp_path / "model"), tmp_path / "other"):
        (one,) = opened(folder).score([("letter 1", "abc")])
        assert one is not None and one.num_tokens >= 1 and one.logprob < 0 and one.mean == one.logprob / one.num_tokens


def test_what_does_not_fit_is_none(tmp_path: Path) -> None:
    model = opened(make_model(tmp_path / "model"))
    assert model.score([("a", "b" * 100_000)]) == [None]


def test_the_same_seed_writes_the_same_texts(tmp_path: Path) -> None:
    model = opened(make_model(tmp_path / "model"))
    drawing = Drawing(num_samples=3, max_new_tokens=4, seed=5)
    rows = model.write(["letter 1", "letter 2"], drawing)
    assert [len(row) for row in rows] == [3, 3] and model.write(["letter 1", "letter 2"], drawing) == rows
    assert model.write([], drawing) == []
    model.close()
