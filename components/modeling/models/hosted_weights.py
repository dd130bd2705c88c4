"""The weights of a model of transformers, layer after layer, by their names in its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from components.modeling.models.lora import adapted_layers
from components.modeling.models.policy import Gather

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def layers_of(model: PreTrainedModel) -> list[nn.Module]:
    """Return the blocks that the architecture names as indivisible; none if it names none."""
    names = set(model._no_split_modules or ())
    return [part for part in model.modules() if type(part).__name__ in names]


@torch.no_grad()
def named_weights(module: nn.Module, model: PreTrainedModel, gather: Gather) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights of `model`, with the adapters that peft put around it as `module` merged in.

    Tied weights come once. Names and layouts are those of the files, such as experts one by one.
    """
    from transformers.core_model_loading import revert_weight_conversion

    adapted = adapted_layers(model) if module is not model else {}
    for group in _groups(model):
        with gather(list(group.values())):
            own = [pair for prefix, part in group.items() for pair in _own(prefix, part)]
            once = {id(tensor): (name, tensor) for name, tensor in reversed(own)}  # of tied weights the first
            plain = {name.replace("base_layer.", ""): tensor for name, tensor in once.values() if "lora_" not in name}
            yield from revert_weight_conversion(model, _merged(plain, adapted)).items()


def _groups(model: PreTrainedModel) -> Iterator[dict[str, nn.Module]]:
    """Yield modules by name: those of no layer, then those of each layer."""
    names = {id(part): name for name, part in model.named_modules()}
    layers = [list(layer.modules()) for layer in layers_of(model)]
    inside = {id(part) for parts in layers for part in parts}
    yield {name: part for name, part in model.named_modules() if id(part) not in inside}
    for parts in layers:
        yield {names[id(part)]: part for part in parts}


def _own(prefix: str, module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the parameters and stored buffers that a module has itself."""
    stored = {name: b for name, b in module._buffers.items() if name not in module._non_persistent_buffers_set}
    for name, tensor in {**module._parameters, **stored}.items():
        if tensor is not None:
            yield f"{prefix}.{name}" if prefix else name, tensor


def _merged(weights: Mapping[str, Tensor], adapted: Mapping[str, list[nn.Module]]) -> dict[str, Tensor]:
    merged: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        whole = tensor.detach()
        for layer in adapted.get(name, ()):
            whole = whole + layer.get_delta_weight("default").to(whole.dtype)  # type: ignore[operator]
        merged[name] = whole
    return merged
