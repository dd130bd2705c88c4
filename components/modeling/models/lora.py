"""LoRA adapters through peft (Hu et al. 2022)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel


class LoraConfig(Params):
    """Low-rank adapters on some linear layers; the rest of the model stays frozen."""

    rank: int = Field(default=8, ge=1)
    """Rank of each adapter."""
    alpha: float = Field(default=16.0, gt=0)
    """Adapters are scaled by alpha / rank (section 4.1)."""
    target_modules: tuple[str, ...] = (
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
    )
    """Names of the linear layers that get an adapter."""
    seed: int = 0
    """Seed of the adapters' initial values."""


def add_adapters(model: PreTrainedModel, config: LoraConfig) -> PeftModel:
    """Return the model with adapters, base weights frozen; the same seed gives the same adapters.

    Raises:
        InputError: no layer of the model has one of the target names.
    """
    import peft
    import torch
    from transformers.pytorch_utils import Conv1D

    names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    unknown = sorted(set(config.target_modules) - names)
    if unknown:
        linear = {n.rpartition(".")[2] for n, m in model.named_modules() if isinstance(m, torch.nn.Linear | Conv1D)}
        raise InputError(
            f"lora.target_modules: the model has no layer named {', '.join(unknown)}"
            f" (its linear layers: {', '.join(sorted(linear))})"
        )
    settings = peft.LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        target_modules=list(config.target_modules),
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return peft.get_peft_model(model, settings).eval()


def merged(model: PeftModel) -> PreTrainedModel:
    """Return a copy of the base model with the adapters merged into its weights."""
    return copy.deepcopy(model).merge_and_unload()
