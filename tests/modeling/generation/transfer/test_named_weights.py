"""The weights that go to an engine are those of the model's files, whatever runs the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from components.modeling.loading.load import load_policy
from components.modeling.models.lora import LoraConfig
from components.modeling.models.policy import Policy
from tests.modeling import decoder_models as models

ADAPTERS = LoraConfig(rank=2, seed=5)


def _load(tmp_path: Path, kind: str, *, lora: LoraConfig | None = None, backend: str = "auto") -> Policy:
    models.save(kind, tmp_path / kind)
    policy = load_policy(tmp_path / kind, lora=lora, backend=backend)  # type: ignore[arg-type]
    if lora is not None:
        with torch.no_grad():
            for _, weight in policy.trainable():
                weight.add_(0.1)
    return policy


def _check(policy: Policy, folder: Path) -> None:
    """Assert that the stream has the weights of the exported files, each once."""
    folder.mkdir()
    policy.export(folder)
    expected = load_file(folder / "model.safetensors")
    found = [(name, tensor.clone()) for name, tensor in policy.named_weights()]
    assert sorted(name for name, _ in found) == sorted(expected)
    for name, tensor in found:
        assert tensor.dtype == expected[name].dtype
        assert torch.equal(tensor, expected[name]), name


@pytest.mark.parametrize("kind", ["llama", "llama-gqa", "qwen2", "qwen3", "gemma2", "phi3"])
def test_of_the_native_decoder(kind: str, tmp_path: Path) -> None:
    policy = _load(tmp_path, kind)
    assert policy.backend == "native"
    _check(policy, tmp_path / "out")


@pytest.mark.parametrize("kind", ["gpt2", *models.MIXTURES])
def test_of_transformers(kind: str, tmp_path: Path) -> None:
    """Mixtures hold their experts in one tensor, and their files hold them one by one."""
    policy = _load(tmp_path, kind)
    assert policy.backend == "transformers"
    _check(policy, tmp_path / "out")


@pytest.mark.parametrize("backend", ["native", "transformers"])
@pytest.mark.parametrize("kind", ["llama", "llama-gqa"])
def test_adapters_are_merged(kind: str, backend: str, tmp_path: Path) -> None:
    policy = _load(tmp_path, kind, lora=ADAPTERS, backend=backend)
    _check(policy, tmp_path / "out")
    before = load_file(tmp_path / kind / "model.safetensors")
    changed = {name for name, tensor in policy.named_weights() if not torch.equal(tensor, before[name])}
    assert {name.split(".")[-2] for name in changed} == set(ADAPTERS.target_modules)


@pytest.mark.parametrize("backend", ["native", "transformers"])
def test_one_group_of_modules_is_gathered_at_a_time(backend: str, tmp_path: Path) -> None:
    """Each weight is asked for while its own group is held: first what belongs to no layer, then layer after layer."""
    policy = _load(tmp_path, "llama-gqa", lora=ADAPTERS, backend=backend)
    held: list[int] = []

    @contextmanager
    def gather(modules: Sequence[nn.Module]) -> Iterator[None]:
        own = {id(p) for module in modules for p in module._parameters.values() if p is not None}
        assert not groups or not own & set.union(*groups)
        groups.append(own)
        held.append(1)
        yield
        held.pop()

    groups: list[set[int]] = []
    for name, _ in policy.named_weights(gather):
        layer = int(name.split(".")[2]) + 1 if name.startswith("model.layers.") else 0
        assert len(groups) == layer + 1 and len(held) == 1
    assert set.union(*groups) == {id(p) for p in policy.module.parameters()} and not held
