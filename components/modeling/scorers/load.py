"""Reward models from disk: those that stage reward_model made, and classifiers of transformers with a linear head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from components.contract.errors import InputError
from components.contract.model_folders.inspection import inspect_model
from components.modeling.loading.hosted import TransformersPolicy
from components.modeling.loading.load import torch_dtype
from components.modeling.models.finite import check_finite, refuse_not_finite
from components.modeling.models.folder import load_tokenizer, refusing
from components.modeling.models.policy import Policy
from components.modeling.native.checkpoints.config import why_not_native
from components.modeling.native.checkpoints.weights import read_weights
from components.modeling.native.native_policy import NativePolicy
from components.modeling.scorers.layout import layout_of
from components.modeling.scorers.network import SCORE, RewardNetwork


def load_network(folder: Path, name: str, *, device: str, dtype: str) -> RewardNetwork:
    """Load a frozen reward model; `name` begins what is wrong.

    Raises InputError for a language model, for a classifier without a linear head, and without a tokenizer.
    """
    config = inspect_model(folder)
    layout = layout_of(config, name)
    weights = read_weights(folder)
    refuse_not_finite(folder, [key for key in weights if key.startswith(f"{SCORE}.")])
    head = {key.removeprefix(f"{SCORE}."): weights.pop(key) for key in list(weights) if key.startswith(f"{SCORE}.")}
    if "weight" not in head:
        raise InputError(f"{name} has no weights {SCORE}.weight: only linear heads of that name are known")
    with refusing(f"{name} cannot be loaded"):
        policy = _body(folder, config, weights, name, device=device, dtype=dtype)
    check_finite(policy.module, folder)
    if policy.tokenizer is None:
        raise InputError(f"{name} has no tokenizer, so it cannot be asked in text")
    policy.module.requires_grad_(False)
    network = RewardNetwork(policy, layout)
    if network.head.weight.shape != head["weight"].shape:
        raise InputError(
            f"{name}: {SCORE}.weight is {tuple(head['weight'].shape)}, its config says "
            f"{tuple(network.head.weight.shape)}"
        )
    with torch.no_grad():
        network.head.weight.copy_(head["weight"])
        if network.head.bias is not None and "bias" in head:
            network.head.bias.copy_(head["bias"])
    network.head.requires_grad_(False)
    return network


def _body(
    folder: Path, config: dict[str, Any], weights: dict[str, Tensor], name: str, *, device: str, dtype: str
) -> Policy:
    """Return the network under the head as a policy, whose logits mean nothing."""
    plain = {**config, "architectures": [], "tie_word_embeddings": True}
    if why_not_native(plain) is None:
        return NativePolicy.load(folder, plain, device=device, dtype=torch_dtype(dtype), weights=weights)
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    model, told = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=torch_dtype(dtype),
        use_safetensors=True,
        output_loading_info=True,
        trust_remote_code=False,
        local_files_only=True,
    )
    output = {f"lm_head.{part}" for part in ("weight", "bias")}
    if missing := sorted(set(told["missing_keys"]) - output):
        raise InputError(f"{name}: a language model of its family has other weights, such as {missing[0]}")
    return TransformersPolicy(model.to(device), config, load_tokenizer(folder), None)
