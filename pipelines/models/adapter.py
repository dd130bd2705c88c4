"""The LoRA adapter of a model that was trained with one: its exact low-rank difference from the model before.

Stages keep merged weights. What training added to each target matrix is B A alpha / rank, so its singular value
decomposition gives factors with the same product, which peft loads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.modeling.models.lora import EXPERTS, stored_targets
from pipelines.models.origin import Origin, trained_from

if TYPE_CHECKING:
    from torch import Tensor

    from components.runtime.store import Store
    from pipelines.models.find import FoundModel

TOLERANCE = 1e-3
"""Largest part of a difference, by norm, that the factors may miss: merging rounds."""
WEIGHTS, SUFFIX = "adapter_model.safetensors", ".weight"


def write_adapter(store: Store, model: FoundModel, origin: Origin, folder: Path) -> None:
    """Write adapter_config.json and adapter_model.safetensors.

    Raises InputError for a model without an adapter, or one that differs from the model before in more than that.
    """
    from safetensors.torch import save_file

    lora, base = origin.maker.get("params", {}).get("lora"), trained_from(origin)
    if not lora or base is None:
        raise InputError(f"{model.name} was not trained with `lora`, so it has no adapter; leave out --adapter")
    before, after = _tensors(store.fetch(base)), _tensors(model.folder)
    if before.keys() != after.keys():
        raise InputError(f"{model.name} and the model before it ({base[:12]}) have other weights; leave out --adapter")
    if EXPERTS in lora["target_modules"]:
        raise InputError(f"{model.name} has adapters on experts, which no adapter file holds; leave out --adapter")
    layers = {name.removesuffix(SUFFIX).rpartition(".")[2] for name in after if ".experts." not in name}
    targets = [name for name in stored_targets(lora["target_modules"], layers) if name in layers]
    factors: dict[str, Tensor] = {}
    for name, weight in after.items():
        module = name.removesuffix(SUFFIX)
        if name.endswith(SUFFIX) and module.rpartition(".")[2] in targets and ".experts." not in module:
            change = weight.double() - before[name].double()
            factors |= dict(_factors(module, change, lora, name))
        elif not bool((weight == before[name]).all()):
            raise InputError(f"{name} differs from the model before, and no adapter is on it; leave out --adapter")
    save_file(factors, folder / WEIGHTS, metadata={"format": "pt"})
    _write_config(folder, {**lora, "target_modules": targets}, origin.base if base == origin.base_digest else None)


def _factors(module: str, change: Tensor, lora: Mapping[str, Any], name: str) -> Iterator[tuple[str, Tensor]]:
    """Yield A [r, in] and B [out, r] with B A alpha / r equal to the change [out, in]."""
    import torch

    rank = int(lora["rank"])
    left, values, right = torch.linalg.svd(change, full_matrices=False)
    missed, whole = float(values[rank:].norm()), float(values.norm())
    if missed > TOLERANCE * whole and missed > TOLERANCE:
        raise InputError(f"{name} changed by more than rank {rank}, so no adapter gives it; leave out --adapter")
    root = (values[:rank] * rank / float(lora["alpha"])).sqrt()
    down, up = root.unsqueeze(1) * right[:rank], left[:, :rank] * root
    yield f"base_model.model.{module}.lora_A.weight", down.float().contiguous()
    yield f"base_model.model.{module}.lora_B.weight", up.float().contiguous()


def _write_config(folder: Path, lora: Mapping[str, Any], base: str | None) -> None:
    import peft

    settings = peft.LoraConfig(
        r=int(lora["rank"]),
        lora_alpha=lora["alpha"],
        target_modules=sorted(lora["target_modules"]),
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
        base_model_name_or_path=base,
        inference_mode=True,
    )
    settings.save_pretrained(str(folder))


def _tensors(folder: Path) -> dict[str, Tensor]:
    """Return all weights of a model folder by name."""
    from safetensors.torch import load_file

    return {name: tensor for path in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(path).items()}
