"""Policies from disk or newly initialised: on the native decoder where it can run them, else on transformers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from components.contract.context import StageContext
from components.contract.errors import InputError
from components.contract.heads import Head, head_of
from components.contract.model_folders.inspection import inspect_model
from components.modeling.models.finite import check_finite
from components.modeling.models.folder import refusing
from components.modeling.models.lora import LoraConfig
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.models.stored_weights import with_own_head
from components.modeling.native.adapters import why_not_adapted
from components.modeling.native.checkpoints.config import why_not_native

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Backend = Literal["auto", "native", "transformers"]


def load_policy(
    path: Path | str,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    lora: LoraConfig | None = None,
    backend: Backend = "auto",
    sharded: bool = False,
) -> Policy:
    """Load a Hugging Face model folder.

    "auto" runs families that the native decoder knows on it, and all others on transformers.
    With `sharded`, no device gets the whole model: its weights stay on disk or on the host until a trainer shards them.

    Raises:
        InputError: not a model folder, an unknown dtype, or a backend that cannot run it (with the reason).
    """
    folder = Path(path)
    config = inspect_model(folder)
    if head_of(config) != Head.LANGUAGE:
        raise InputError(
            f"{folder} is a reward model ({config['architectures'][0]}), and a language model is wanted: it scores "
            "texts, and writes none"
        )
    obstacle = why_not_native(config) or (why_not_adapted(lora) if lora else None)
    if backend == "native" and obstacle:
        raise InputError(f"{folder} cannot run on the native backend: {obstacle}; use backend 'transformers'")
    if backend == "native" or (backend == "auto" and obstacle is None):
        from components.modeling.native.native_policy import NativePolicy

        with refusing(f"{folder} cannot be loaded"):
            config = with_own_head(folder, config)
            policy: Policy = NativePolicy.load(
                folder, config, device=device, dtype=torch_dtype(dtype), lora=lora, sharded=sharded
            )
        check_finite(policy.module, folder)
        return policy
    from components.modeling.loading.hosted import TransformersPolicy

    if sharded and lora is not None and lora.bits is not None:
        raise InputError(
            "lora.bits: trainer fsdp shards packed weights of the native families alone; take trainer torch"
        )
    with refusing(f"{folder} cannot be loaded"):
        return TransformersPolicy.load(folder, device="cpu" if sharded else device, dtype=torch_dtype(dtype), lora=lora)


def load_to_train(ctx: StageContext[Any], *, lora: LoraConfig | None, dtype: str) -> Policy:
    """Load input `model` of a stage that trains it, on the stage's device, in shards where its trainer wants them."""
    resources = ctx.job.resources
    policy = load_policy(ctx.input("model").path, device=ctx.device, dtype=dtype, lora=lora, sharded=resources.sharded)
    packed = policy.backend == "transformers" and lora is not None and lora.bits is not None
    if packed and resources.trainer == "deepspeed" and resources.zero_stage:
        raise InputError(
            f"lora.bits: ZeRO {resources.zero_stage} cannot hold packed weights of a model that transformers runs; "
            "set `backend: {zero_stage: 0}`: the adapters alone are trained"
        )
    return policy


def new_policy(
    config: ModelConfig,
    *,
    tokenizer: PreTrainedTokenizerFast | None,
    seed: int,
    device: str = "cpu",
    dtype: str = "float32",
) -> Policy:
    """Return a freshly initialised Llama of the given sizes; the same seed gives the same weights."""
    from components.modeling.native.native_policy import NativePolicy

    return NativePolicy.create(config, tokenizer, seed=seed, device=device, dtype=torch_dtype(dtype))


def torch_dtype(name: str) -> torch.dtype:
    """Return the torch dtype of a name such as "float32"."""
    known: dict[str, torch.dtype] = {
        "float32": torch.float32,
        "float64": torch.float64,
        "bfloat16": torch.bfloat16,
        "float16": torch.float16,
    }
    if name not in known:
        raise InputError(f"unknown dtype {name!r} (known: {', '.join(known)})")
    return known[name]
