"""LoRA adapters (Hu et al. 2022): their settings, and models of transformers with peft's adapters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params

if TYPE_CHECKING:
    from peft import PeftModel
    from torch import Tensor, nn
    from transformers import PreTrainedModel

EXPERTS = "experts"
"""In `target_modules`: the experts of a mixture."""
FUSED: Mapping[str, tuple[str, ...]] = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
"""Layers that some families (Phi-3) have in place of several."""


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
    """Names of the linear layers that get an adapter.

    A family that has one layer for several of them gets one adapter there. In a mixture of experts, names that only its
    experts would have are left out, unless `experts` is named too: then each expert has adapters of its own."""
    bits: Literal[4] | None = None
    """4 keeps the frozen matrices of the blocks in 4 bits (QLoRA's NormalFloat), experts too; null as they are. On
    transformers training then computes layers again for the backward pass, as `backend: {recompute: true}` does."""
    seed: int = 0
    """Seed of the adapters' initial values."""


def add_adapters(model: PreTrainedModel, config: LoraConfig) -> PeftModel:
    """Return the model with adapters, base weights frozen; the same seed gives the same adapters.

    Raises:
        InputError: no layer of the model has one of the target names.
    """
    import peft
    import torch

    modules, parameters = _targets(model, config.target_modules)
    _untie(model, modules)
    settings = peft.LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        target_modules=modules,
        target_parameters=parameters or None,
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return peft.get_peft_model(model, settings).eval()


def stored_targets(targets: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the target names as a model with layers of these `names` has them: fused ones for those that it lacks."""
    found = set(names)
    fused = {part: whole for whole, parts in FUSED.items() if whole in found for part in parts if part not in found}
    return tuple(dict.fromkeys(fused.get(name, name) for name in targets))


def _targets(model: PreTrainedModel, wanted: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the names of layers and of expert parameters that get adapters; raise InputError for unknown ones."""
    import torch
    from transformers.pytorch_utils import Conv1D

    names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    # Experts are stacked in one parameter: [experts, rows, columns].
    stacked = {".".join(name.split(".")[-3:]) for name, p in model.named_parameters() if p.ndim == 3}
    targets = stored_targets([name for name in wanted if name != EXPERTS], names)
    if stacked:
        targets = tuple(name for name in targets if name in names or name not in LoraConfig().target_modules)
    unknown = sorted({*targets} - names) + ([EXPERTS] if EXPERTS in wanted and not stacked else [])
    if unknown or not (targets or stacked):
        linear = {n.rpartition(".")[2] for n, m in model.named_modules() if isinstance(m, torch.nn.Linear | Conv1D)}
        raise InputError(
            f"lora.target_modules: the model has no layer named {', '.join(unknown)}"
            f" (its linear layers: {', '.join(sorted(linear))})"
        )
    return list(targets), sorted(stacked) if EXPERTS in wanted else []


def _untie(model: PreTrainedModel, targets: Iterable[str]) -> None:
    """Give a tied model a head of its own where an adapter makes head and embedding differ; its config says so.

    The adapter of one would otherwise be lost, or change the other, when they are saved as one matrix.
    """
    from torch import nn

    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    if embedding is None or head is None or head.weight is not embedding.weight:
        return
    names = {name.rpartition(".")[2] for name, part in model.named_modules() if part is embedding or part is head}
    if not names & set(targets):
        return
    print(
        "lora: head and embedding were one matrix; with an adapter on one of them they are two, and config.json of "
        "what is saved says so (tie_word_embeddings: false)",
        flush=True,
    )
    head.weight = nn.Parameter(embedding.weight.detach().clone(), requires_grad=False)
    say_untied(model)


def say_untied(model: PreTrainedModel) -> None:
    """Write into a model's config that its head is a matrix of its own, so that readers of its folder do not tie it."""
    for config in (model.config, model.config.get_text_config()):
        config.tie_word_embeddings = False
    model.all_tied_weights_keys = {}


def merged_weights(model: PeftModel) -> dict[str, Tensor]:
    """Return the base model's weights by their own names, on the CPU, with adapters merged in.

    One tensor at a time: beside the model only one matrix is held on its device.
    """
    base = model.get_base_model()
    adapted = adapted_layers(base)
    moved: dict[int, Tensor] = {}
    weights: dict[str, Tensor] = {}
    for name, tensor in base.state_dict(keep_vars=True).items():
        if "lora_" in name:
            continue
        plain = name.replace("base_layer.", "")
        # Tied weights stay one tensor.
        if id(tensor) not in moved:
            whole = tensor.detach()
            for layer in adapted.get(plain, ()):
                whole = whole + layer.get_delta_weight("default").to(whole.dtype)
            moved[id(tensor)] = whole.detach().to("cpu", copy=True)
        weights[plain] = moved[id(tensor)]
    return weights


def adapted_layers(base: nn.Module) -> dict[str, list[nn.Module]]:
    """Return the layers with an adapter by the name of the weight that it changes."""
    from peft.tuners.lora import LoraLayer

    found: dict[str, list[nn.Module]] = {}
    for name, module in base.named_modules():
        if isinstance(module, LoraLayer):
            weight = getattr(module, "parameter_name", "weight")
            found.setdefault(f"{name}.{weight}".replace("base_layer.", ""), []).append(module)
    return found
