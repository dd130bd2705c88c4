"""Backends: what generates with and what trains a job's models. The pool decides; a recipe may override."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Backend = Literal["sampler", "trainer"]
"""Backend that a component may depend on: the one that generates or the one that trains."""

DEEPSPEED_ONLY = ("zero_stage", "offload")
GROUPS = ("tensor_parallel", "context_parallel")
"""How many ranks compute one batch together, in two ways that multiply."""
FSDP_ONLY = ("gather", *GROUPS)
WHOLE_SHARE = 0.25
"""Most of a GPU's memory that a whole copy of the model to draw and score with takes by itself."""
SEVERAL = ("deepspeed", "fsdp")
"""Trainers of several processes."""


class Backends(BaseModel):
    """What generates and what trains, and how many processes train together."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sampler: Literal["native", "vllm"] = "native"
    """What draws responses: the batched sampler of this repository, or vLLM."""
    trainer: Literal["torch", "deepspeed", "fsdp"] = "torch"
    """What trains: one process of plain torch, or all processes by DeepSpeed's ZeRO or torch's FSDP2, which shards
    weights, gradients and optimiser states layer by layer and loads and saves without a whole model on any GPU."""
    zero_stage: int = Field(default=2, strict=True, ge=0, le=3)
    """What DeepSpeed's processes share out: 0 nothing, 1 optimiser states, 2 gradients too, 3 weights too."""
    offload: Literal["none", "optimizer", "all"] = "none"
    """What DeepSpeed keeps in the memory of the host: nothing, optimiser states, or weights too (ZeRO 3)."""
    processes: int | None = Field(default=None, strict=True, ge=1)
    """Processes of DeepSpeed or FSDP on each node; one for each GPU, or one without any, where it is null."""
    gather: Literal["auto", "model", "layer"] = "auto"
    """What FSDP's processes gather at a time to draw and score in RL: a whole copy of the model on each GPU, or one
    layer after the other for each token, which takes longer; auto: a whole copy where that takes at most a quarter of a
    GPU and an engine does not draw."""
    tensor_parallel: int = Field(default=1, strict=True, ge=1)
    """Neighbouring processes of FSDP that have a part of each matrix and compute one batch together, for models whose
    layers or passes are too large for one GPU; it divides the processes of a node, the heads and the vocabulary."""
    context_parallel: int = Field(default=1, strict=True, ge=1)
    """Processes of FSDP that compute one batch together, each the same share of its tokens, for sequences whose passes
    are too large for one GPU; it divides the processes. The native decoder's families alone."""
    recompute: bool = Field(default=False, strict=True)
    """Whether training keeps of a layer only what enters it, and computes the rest again for the backward pass
    (activation checkpointing): less memory for a third more work, and the same result."""
    deterministic: bool = Field(default=False, strict=True)
    """Whether the same job gives the same bytes on GPUs of one kind, too: slower kernels that repeat themselves, and a
    refusal of what has none. On a CPU with a fixed number of threads jobs repeat themselves without it."""

    def refusal(self, gpus: int = 0, nodes: int = 1) -> str | None:
        """Return why these settings do not fit each other or the GPUs of each node, as a readable sentence, or None."""
        for trainer, own in (("deepspeed", DEEPSPEED_ONLY), ("fsdp", FSDP_ONLY)):
            given = [name for name in own if getattr(self, name) != type(self).model_fields[name].default]
            if given and self.trainer != trainer:
                return f"{' and '.join(given)}: only for trainer {trainer}, and the trainer is {self.trainer}"
        if self.trainer != "deepspeed":
            if self.trainer == "torch" and self.processes is not None:
                return f"processes: only for trainers {' and '.join(SEVERAL)}, and the trainer is torch"
            return self.processes_refusal(gpus) or self.groups_refusal(gpus, nodes)
        if self.offload == "optimizer" and not self.zero_stage:
            return "offload optimizer: needs zero_stage 1, 2 or 3"
        if self.offload == "all" and self.zero_stage != 3:
            return f"offload all: needs zero_stage 3, not {self.zero_stage}"
        return self.processes_refusal(gpus)

    def processes_refusal(self, gpus: int) -> str | None:
        """Return why a node's GPUs cannot be divided among the processes, or None.

        Each process has a contiguous range of GPUs for its engine, and trains on one of them.
        """
        if not gpus or self.processes is None or gpus % self.processes == 0:
            return None
        fitting = ", ".join(str(count) for count in range(1, gpus + 1) if gpus % count == 0)
        return f"processes {self.processes}: {gpus} GPUs on each node are not shared out evenly; take one of {fitting}"

    def groups_refusal(self, gpus: int, nodes: int) -> str | None:
        """Return why the processes cannot be divided into groups that compute one batch together, or None.

        A tensor group stays on a node: its ranks wait for one another several times in each layer.
        """
        own = self.processes or gpus or 1
        for name, count, total in (
            ("tensor_parallel", self.tensor_parallel, own),
            ("context_parallel", self.context_parallel, own * nodes // self.tensor_parallel),
        ):
            if total % count:
                fitting = ", ".join(str(count) for count in range(1, total + 1) if total % count == 0)
                where = "on each node" if name == GROUPS[0] else "beside tensor_parallel"
                who = f"{total} process{'es' if total > 1 else ''} {where}"
                more = "" if gpus else ", or other backend.processes"
                return f"{name} {count}: {who} cannot be divided by it; take one of {fitting}{more}"
        return None

    def gathers_layers(self, model_bytes: float, gpu_bytes: float | None) -> bool:
        """Return whether FSDP draws and scores layer by layer; `gpu_bytes` is a GPU's memory, None without any."""
        if self.gather != "auto":
            return self.gather == "layer"
        if gpu_bytes is None:
            return False
        return self.sampler == "vllm" or model_bytes > WHOLE_SHARE * gpu_bytes

    def optimizer_refusal(self, optimizer: str) -> str | None:
        """Return why the trainer cannot use an optimiser, or None."""
        if optimizer == "adamw":
            return None
        if self.tensor_parallel > 1:
            return (
                f"{optimizer} needs whole matrices, which tensor_parallel cuts up: take optimizer.name adamw, or leave "
                "backend.tensor_parallel out"
            )
        if self.trainer != "deepspeed" or not self.zero_stage:
            return None
        return (
            f"{optimizer} needs whole matrices, which ZeRO {self.zero_stage} cuts up: take optimizer.name adamw, "
            "backend.zero_stage 0, or `backend: {trainer: fsdp}`"
        )


def given_backends(source: Backends) -> dict[str, Any]:
    """Return the settings of `source` that differ from the defaults."""
    return {
        name: getattr(source, name)
        for name, info in Backends.model_fields.items()
        if getattr(source, name) != info.default
    }
