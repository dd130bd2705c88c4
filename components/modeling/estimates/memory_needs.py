"""Memory of training and sampling: weights, gradients, optimiser states, activations, caches.

Free of torch, so that plans can import it. Estimates of the peak, per process: they show what dominates and what to
change, and do not replace a measurement. Shares of ZeRO: Rajbhandari et al. 2020 (arXiv:1910.02054), section 5.
"""

from __future__ import annotations

from collections.abc import Iterator

from components.contract.job import Resources
from components.contract.memory import GIB, Moment, Need
from components.modeling.estimates.fsdp_memory import PACKED, fsdp_needs
from components.modeling.models.lora import LoraConfig
from components.modeling.models.model_sizes import ModelSizes

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
AVERAGES = {"adamw": 2, "muon": 1}
"""Moving averages of an optimiser for each weight, all of them float32; of Muon those of its matrices."""
PROCESS = 0.55 * GIB
"""Python with torch and transformers before any model, measured."""
CUDA_CONTEXT = 0.8 * GIB
GRADIENT = 4
"""Bytes of a gradient: gradients accumulate in float32."""
CHUNK_LOGITS, GPU_CHUNK_LOGITS = 1 << 25, 1 << 28
"""Logits of a chunk (packing/chunks.py): on a CPU, and the most on a GPU, which takes fewer where less is free."""
BUCKET = 500_000_000
"""Gradients that ZeRO 1 to 3 sum at a time (DeepSpeed's reduce_bucket_size): a buffer while a backward pass runs."""
LIVE = 1_000_000_000
"""Most weights that ZeRO 3 gathers at a time in a pass; of a smaller model, a quarter (training/zero.py)."""
LOGIT_COPIES = 3
"""Logits, their gradient, and a temporary of the softmax."""
SHORT_ATTENTION = 256
"""Sequences up to here keep their attention matrix on a CPU (components/modeling/native/attention/short.py)."""
MOST_CAPPED = 2048
"""Keys up to which a CPU keeps capped scores: more go in pieces, computed again (native/attention/padded.py)."""
PADDING = 1.25
"""Padded queries, keys and values over unpadded ones."""


def training_needs(
    sizes: ModelSizes,
    resources: Resources,
    *,
    dtype: str,
    optimizer: str,
    lora: LoraConfig | None,
    pass_tokens: int,
    longest: int,
) -> Iterator[Need]:
    """Yield the memory of the weights, their update, and one forward and backward pass of `pass_tokens`.

    `longest` bounds the tokens of one sequence.
    """
    size, saved = BYTES[dtype], BYTES[dtype] * sizes.parameters
    sizes = sizes.part(resources.tensor_parallel)
    trained = sizes.adapters(lora) if lora else sizes.parameters
    if resources.sharded:
        given = {"size": size, "trained": trained, "averages": AVERAGES[optimizer], "packed": packed_of(sizes, lora)}
        yield from fsdp_needs(sizes, resources, whole_model=lora is None, **given)
        # The first rank's host alone, twice while it is written.
        written = 2 * saved / resources.ranks_per_node
        yield Need("model being saved", written, on_host=True, moment=Moment.BETWEEN)
    else:
        yield from _replica_or_zero_needs(sizes, resources, size=size, trained=trained, optimizer=optimizer, lora=lora)
    recompute = resources.recompute or bool(sizes.experts and lora and lora.bits)  # packed experts always are
    context = resources.context_parallel
    kept_scores = not resources.gpus and context == 1
    held = activations_per_token(sizes, longest, cpu=kept_scores, recompute=recompute)
    own = -(-pass_tokens // context)
    yield Need("activations", size * held * own, moment=Moment.PASS)
    if context > 1:
        yield Need("keys and values of a context group", gathered_keys(sizes, size) * pass_tokens, moment=Moment.PASS)
    yield logits_need(sizes, own, Moment.PASS, resources)
    yield from process_needs(resources)


def _replica_or_zero_needs(
    sizes: ModelSizes, resources: Resources, *, size: int, trained: int, optimizer: str, lora: LoraConfig | None
) -> Iterator[Need]:
    """Yield weights, gradients and optimiser states of plain torch, or of a rank under ZeRO."""
    stage = resources.zero_stage if resources.trainer == "deepspeed" else 0
    share = {level: resources.world_size if stage >= level else 1 for level in (1, 2, 3)}
    packed = packed_of(sizes, lora)
    if packed:  # no part of what ZeRO shares out; a layer's are unpacked while it computes
        yield Need("packed weights", PACKED * packed + size * packed / sizes.layers)
    whole = size * (sizes.parameters - packed + (trained if lora else 0))
    yield from _weight_needs(whole, share[3], size, resources)
    # In float32 whatever the weights are; DeepSpeed's stage 1 in bfloat16 never frees them.
    held = stage == 1 and size < GRADIENT and resources.offload == "none"
    yield Need("gradients", GRADIENT * trained / share[2], moment=None if held else Moment.PASS)
    states = state_bytes(optimizer, size, sharded=bool(stage)) * trained / share[1]
    yield Need("optimiser states", states, on_host=resources.offload != "none")
    if stage and resources.gpus:  # on a CPU memory that is not written takes nothing
        yield Need("DeepSpeed's bucket", size * BUCKET, moment=None if stage == 3 else Moment.PASS)


def packed_of(sizes: ModelSizes, lora: LoraConfig | None) -> int:
    """Return how many weights are kept in 4 bits."""
    return sizes.matrices if lora and lora.bits == 4 else 0


def _weight_needs(whole: float, share: int, size: int, resources: Resources) -> Iterator[Need]:
    """Yield the weights of `whole` bytes, cut into `share` parts, and the gathered ones on a GPU.

    Between passes, to draw and to save, all weights are gathered.
    """
    offloaded = resources.offload == "all"
    yield Need("weights", whole / share, on_host=offloaded)
    if gathered := whole if offloaded else whole * (1 - 1 / share):
        yield Need("gathered weights", min(gathered / 4, size * LIVE), moment=Moment.PASS)
        yield Need("gathered weights", gathered, moment=Moment.BETWEEN)


def logits_need(sizes: ModelSizes, pass_tokens: int, moment: Moment | None, resources: Resources) -> Need:
    """Return the memory of a pass's logits, which are computed in chunks."""
    most = GPU_CHUNK_LOGITS if resources.gpus and not resources.deterministic else CHUNK_LOGITS
    return Need("logits", LOGIT_COPIES * 4 * min(pass_tokens * sizes.vocab, most), moment=moment)


def process_needs(resources: Resources) -> Iterator[Need]:
    """Yield the memory of a process before it does anything."""
    yield Need("libraries", PROCESS, on_host=True)
    if resources.gpus:
        yield Need("CUDA", CUDA_CONTEXT)


def state_bytes(optimizer: str, size: int, *, sharded: bool = False) -> int:
    """Return the bytes of optimiser state for each trained weight, all of it float32.

    AdamW keeps two averages and Muon one; low-precision weights have a copy, and with ZeRO float32 ones do too.
    """
    copies = 1 if sharded or size < 4 else 0
    return 4 * (copies + AVERAGES[optimizer])


def gathered_keys(sizes: ModelSizes, size: int) -> float:
    """Return the bytes of each token's keys and values in the layer that a backward pass has gathered them for.

    As they come, in order, as the kernel takes them and their gradients from it, in `size` bytes; and the gradients in
    float32 twice, summed and as they travel.
    """
    return (4 * size + 2 * 4) * 2 * sizes.kv_heads * sizes.head_width


def activations_per_token(sizes: ModelSizes, longest: int, *, cpu: bool, recompute: bool = False) -> float:
    """Return how many numbers training keeps of each token for its backward pass.

    With `recompute`: each layer's input, and all activations of the layer being recomputed.
    """
    kept = layer_per_token(sizes, longest, cpu=cpu)
    layers = sizes.layers * sizes.width + kept if recompute else sizes.layers * kept
    return layers + 2 * sizes.width


def layer_per_token(sizes: ModelSizes, longest: int, *, cpu: bool) -> float:
    """Return how many numbers one layer keeps of each token."""
    inner = sizes.heads * sizes.head_width
    mlp = 3 * sizes.mlp_width * sizes.experts_per_token
    made = (2 + sizes.norms) * sizes.width + (1 + PADDING) * sizes.projections + 2 * inner + mlp
    # On a CPU scores, their tanh and the weights; the kernels for CUDA keep none.
    matrices = cpu and (3 if sizes.capped else longest <= SHORT_ATTENTION)
    return made + PADDING * sizes.heads * min(longest, MOST_CAPPED) * matrices
