"""The choice of a job's sampler: its pool sets it, and a recipe may override it."""

from __future__ import annotations

import os
import sys

import torch

from components.contract.job import Resources
from components.modeling.generation.engine.engine_process import EngineProcess
from components.modeling.generation.engine.engine_sampler import EngineSampler
from components.modeling.generation.engine.follower import Follower
from components.modeling.generation.engine.languages import STRUCTURED
from components.modeling.generation.engine.shared import SharedSampler
from components.modeling.generation.sampler import NativeSampler, Sampler
from components.modeling.models.gpus import VISIBLE, gpu_memory_share, gpus_apart, own_gpus
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.models.policy import Policy
from components.modeling.ranks import Ranks, current_ranks, ranks_along
from components.runtime.system.determinism import BATCH_INVARIANT
from components.runtime.system.mesh import SHARDS

PYTHON = "POSTTRAIN_VLLM_PYTHON"
"""Python of the environment that has vLLM; by default the stage's own."""
MAX_ROWS = 256
"""Most responses that vLLM draws at a time."""
LAUNCHER_VARIABLES = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "LOCAL_SIZE",
    "GROUP_RANK",
    "CROSS_RANK",
    "CROSS_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
"""Variables by which launchers identify ranks; an engine is not a rank, so it gets none of them."""


def open_sampler(
    policy: Policy, resources: Resources, ranks: Ranks | None = None, *, structured: bool = False
) -> Sampler:
    """Return the sampler that a job's resources name, drawing from `policy`. Close it, or use it in a `with`.

    vLLM starts with the first weights, and uses all GPUs of this rank, or of several ranks that hold shards of a large
    model. Ranks draw together: all must call it. `ranks` are those that divide the prompts of the policy's own passes:
    data ranks, those of a context group among them, unless all of them have a whole model. `structured`: draws will be
    constrained to a language, so an engine needs the tokenizer.
    """
    ranks = ranks or ranks_along(SHARDS)
    per_engine = _ranks_per_engine(policy, resources) if ranks.all.count > 1 else 1
    own = _own_sampler(policy, resources, per_engine, structured=structured)
    return own if ranks.all.count == 1 else SharedSampler(own, ranks, per_engine=per_engine)


def _ranks_per_engine(policy: Policy, resources: Resources) -> int:
    """Return over how many ranks' GPUs an engine is split: more than one where a model is too large for one rank's."""
    sizes = _sizes(policy)
    if resources.sampler == "native" or not resources.sharded or not resources.gpus or sizes is None:
        return 1
    own = resources.gpus // resources.ranks_per_node
    weights = sum(weight.numel() for weight in policy.module.parameters()) * policy.pass_dtype.itemsize
    memory = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    share = gpu_memory_share()
    return sizes.engine_gpus(weights, own=own, node=resources.gpus, memory=memory, share=share) // own


def _gpus_apart(policy: Policy, resources: Resources, on_node: int) -> int:
    """Return how many GPUs of its own the engine of each of a node's processes has; 0 where they share theirs."""
    sizes = _sizes(policy)
    # vLLM does not split what it has no sizes for
    return gpus_apart(sizes.most_gpus if sizes else lambda _: 1, node=resources.gpus, processes=on_node)


def _sizes(policy: Policy) -> ModelSizes | None:
    return ModelSizes.from_config(policy.config if isinstance(policy.config, dict) else policy.config.to_dict())


def _own_sampler(policy: Policy, resources: Resources, per_engine: int, *, structured: bool) -> Sampler:
    """Return the sampler of this rank."""
    if resources.sampler == "native":
        return NativeSampler(policy)
    everyone = current_ranks().all
    if everyone.index % per_engine:
        return Follower(policy)
    on_node = resources.ranks_per_node if everyone.count > 1 else 1  # a stage that does not train is one process
    apart = _gpus_apart(policy, resources, on_node) if per_engine == 1 else 0
    gpus = apart or max(1, resources.gpus // on_node) * per_engine
    share = gpu_memory_share(alone=bool(apart))
    options = {"gpus": gpus, "gpu_memory_share": share, "max_rows": MAX_ROWS, "sleeps": not apart}
    options |= {STRUCTURED: True} if structured else {}
    environment = vllm_environment(resources)
    if apart:
        environment[VISIBLE] = own_gpus(gpus, first=on_node)
    elif resources.gpus and on_node > 1:
        environment[VISIBLE] = own_gpus(gpus, ranks=per_engine)

    def start() -> EngineProcess:
        return EngineProcess(
            "components.modeling.generation.engine.vllm_engine:VllmEngine",
            python=os.environ.get(PYTHON) or sys.executable,
            environment=environment,
            without=[name for name in os.environ if name in LAUNCHER_VARIABLES or name.startswith("TORCHELASTIC_")],
        )

    return EngineSampler(policy, start, options)


def vllm_environment(resources: Resources) -> dict[str, str]:
    """Return the variables of a vLLM process."""
    # On a CPU, compiling the sampler's two small functions takes half a minute and saves nothing measurable.
    eager = {} if resources.gpus else {"TORCHDYNAMO_DISABLE": "1"}
    # On a CPU the same requests in the same order are computed alike already.
    alike = {BATCH_INVARIANT: "1"} if resources.gpus and resources.deterministic else {}
    return (
        eager
        | alike
        | {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine is in its own process already
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_CPU_KVCACHE_SPACE": os.environ.get("VLLM_CPU_KVCACHE_SPACE", "1"),
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": str(resources.threads),
        }
    )
