"""Settings that a user may change when a stage takes too much memory, worded as they are written in a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from components.contract.job import Resources
from components.contract.memory import Knob, Need
from components.modeling.models.gpus import MEMORY_SHARE
from components.modeling.models.lora import LoraConfig

Change = Mapping[str, Any]
NeedsOf = Callable[[Any, Resources, float], Iterable[Need]]
"""(parameters, resources, vLLM's share of each GPU) -> needs."""
PASS = "micro_batch_tokens"
BOUNDS = (PASS, "max_batch_tokens")
"""Parameters that bound what is computed at a time."""
SIZES = ("max_tokens", "max_new_tokens", "prompts_per_step")
"""Parameters that set how much there is to compute."""
LEAST_SHARE = 0.1


def knobs(needs_of: NeedsOf, params: Any, resources: Resources, share: float) -> tuple[Knob, ...]:
    """Return every knob of a stage with its needs after the change: first those that cost next to nothing, then those
    that cost time, then those that change the result. The estimate decides which of them help."""

    def turned(words: str, params: Any = params, resources: Resources = resources, share: float = share) -> Knob:
        return Knob(words, partial(needs_of, params, resources, share))

    free, costly = _parameters(params)
    lower = [share / 2] if resources.sampler == "vllm" and resources.gpus and share / 2 >= LEAST_SHARE else []
    return (
        *(turned(_written(change), params.model_copy(update=change)) for change in free),
        *(turned(f"{MEMORY_SHARE}={half:g}", share=half) for half in lower),
        *(
            turned(f"backend: {{{_written(change)}}}", resources=resources.model_copy(update=change))
            for change in _backends(params, resources)
        ),
        *(turned(_written(change), params.model_copy(update=change)) for change in costly),
    )


def _backends(params: Any, resources: Resources) -> Iterator[Change]:
    """Yield changes of `backend` that fit the pool's settings, each going one step further."""
    if "optimizer" in type(params).model_fields:
        if not resources.recompute:
            yield {"recompute": True}
        for change in _shares(resources):
            changed = resources.model_copy(update=change)
            refused = changed.refusal(changed.gpus, changed.nodes)
            if refused is None and changed.optimizer_refusal(params.optimizer.name) is None:
                yield change
    if resources.sampler == "vllm" and not resources.gpus:  # on GPUs it would be far slower
        yield {"sampler": "native"}


def _shares(resources: Resources) -> Iterator[Change]:
    if resources.trainer == "fsdp":
        if resources.gather != "layer":
            yield {"gather": "layer"}
        yield {"context_parallel": 2 * resources.context_parallel}
        return
    if resources.trainer == "torch":
        if resources.gpus > 1:
            yield {"trainer": "deepspeed"}
        yield {"trainer": "deepspeed", "offload": "optimizer"}
        return
    if resources.zero_stage < 3:
        yield {"zero_stage": 3 if resources.zero_stage else 2}
    if resources.offload == "none":
        yield {"offload": "optimizer"} if resources.zero_stage else {"zero_stage": 2, "offload": "optimizer"}
    elif resources.offload == "optimizer":
        yield {"zero_stage": 3, "offload": "all"}
    if resources.offload != "none":  # host memory may be what is short
        yield {"offload": "none"}


def _parameters(params: Any) -> tuple[list[Change], list[Change]]:
    """Return changes of parameters: those that keep the result, and those that change it."""
    given = {name: getattr(params, name) for name in type(params).model_fields}
    halved = {name: given[name] // 2 for name in (*BOUNDS, *SIZES) if given.get(name, 0) > 1}
    free: list[Change] = [{"start_kl_every": 0}] if given.get("start_kl_every") else []
    free += [{name: halved[name]} for name in BOUNDS if name in halved]
    costly: list[Change] = [{"dtype": "bfloat16"}] if given.get("dtype") == "float32" else []
    if "lora" in given and given["lora"] is None:
        costly.append({"lora": LoraConfig()})
    if (lora := given.get("lora")) is not None and lora.bits is None:
        costly.append({"lora": lora.model_copy(update={"bits": 4})})
    for name in (name for name in SIZES if name in halved):
        change = {name: halved[name]}
        if halved.get(PASS, 0) < given[name] <= given.get(PASS, 0):  # a pass holds one sequence, and would hold two
            change[PASS] = halved[PASS]
        costly.append(change)
    return free, costly


def _written(change: Change) -> str:
    """Return settings as written in a recipe."""

    def value(given: Any) -> str:
        if isinstance(given, LoraConfig):
            return f"{{rank: {given.rank}{', bits: 4' if given.bits else ''}}}"
        return str(given).lower()

    return ", ".join(f"{name}: {value(given)}" for name, given in change.items())
