"""A model folder means what transformers says it means: loaded, trained and exported, by family and layout."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from components.modeling.loading.load import load_policy
from components.modeling.models.lora import LoraConfig
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from tests.modeling import decoder_models as models

FAMILIES = ("llama-gqa", "qwen2", "qwen3", "gemma2", "gemma3", "mistral", "phi3", "gpt-oss", "mixtral")
ROW = models.token_lists([12])[0]
WEIGHTS, HEAD, EMBEDDING = "model.safetensors", "lm_head.weight", "model.embed_tokens.weight"
TARGETS = {"attention": ("o_proj",), "head": ("lm_head",), "embedding": ("embed_tokens",)}


def _flag(folder: Path, tied: bool) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": tied}))


def _tied(folder: Path) -> None:
    _flag(folder, True)
    weights = load_file(folder / WEIGHTS)
    weights.pop(HEAD, None)
    save_file(weights, folder / WEIGHTS, {"format": "pt"})


def _separate(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    head = torch.randn(weights[EMBEDDING].shape, generator=torch.Generator().manual_seed(5))
    save_file({**weights, HEAD: head}, folder / WEIGHTS, {"format": "pt"})
    _flag(folder, False)


def _under_the_flag(folder: Path) -> None:
    _separate(folder)
    _flag(folder, True)


def _twice(folder: Path) -> None:
    _tied(folder)
    weights = load_file(folder / WEIGHTS)
    save_file({**weights, HEAD: weights[EMBEDDING].clone()}, folder / WEIGHTS, {"format": "pt"})


def _sharded(folder: Path) -> None:
    _separate(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    (folder / WEIGHTS).unlink()
    model.save_pretrained(folder, max_shard_size="8KB")
    assert (folder / "model.safetensors.index.json").is_file()


def _padded(folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.resize_token_embeddings(models.VOCAB + 24, mean_resizing=False)
    model.save_pretrained(folder)


def _bf16(folder: Path) -> None:
    AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).save_pretrained(folder)


LAYOUTS: dict[str, Callable[[Path], None]] = {
    "tied": _tied,
    "separate": _separate,
    "separate-under-the-flag": _under_the_flag,
    "written-twice": _twice,
    "sharded": _sharded,
    "padded": _padded,
    "bf16": _bf16,
}


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("family")
    models.save(request.param, place)
    return place


def _laid_out(folder: Path, layout: str, place: Path) -> Path:
    shutil.copytree(folder, place / "model")
    LAYOUTS[layout](place / "model")
    return place / "model"


@torch.no_grad()
def _ours(policy: Policy) -> Tensor:
    return policy.logits(policy.hidden(Packed.from_sequences([ROW], keep_last=True))).float()


@torch.no_grad()
def _theirs(folder: Path) -> Tensor:
    logits: Tensor = (
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()(torch.tensor([ROW])).logits
    )
    return logits[0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_loaded_and_exported_as_transformers_reads_it(folder: Path, layout: str, tmp_path: Path) -> None:
    source, out = _laid_out(folder, layout, tmp_path), tmp_path / "out"
    policy = load_policy(source)
    expected = _theirs(source)
    torch.testing.assert_close(_ours(policy), expected, atol=1e-4, rtol=1e-4)
    out.mkdir()
    policy.export(out)
    torch.testing.assert_close(_theirs(out), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("layout", ["tied", "separate", "separate-under-the-flag"])
@pytest.mark.parametrize("where", TARGETS)
def test_trained_adapters_are_in_the_export(folder: Path, where: str, layout: str, tmp_path: Path) -> None:
    """On a tied model, too, where an adapter on head or embedding makes the two differ."""
    source, out = _laid_out(folder, layout, tmp_path), tmp_path / "out"
    policy = load_policy(source, lora=LoraConfig(rank=2, target_modules=TARGETS[where]))
    before = _ours(policy)
    torch.testing.assert_close(before, _theirs(source), atol=1e-4, rtol=1e-4)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for _, parameter in policy.trainable():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.3)
    trained = _ours(policy)
    assert (trained - before).abs().max() > 1e-2
    out.mkdir()
    policy.export(out)
    torch.testing.assert_close(_theirs(out), trained, atol=1e-4, rtol=1e-4)
    sent, stored = dict(policy.named_weights()), load_file(out / WEIGHTS)
    assert sent.keys() == stored.keys()
    for name, tensor in stored.items():
        torch.testing.assert_close(sent[name], tensor)
