"""What training and sampling take in memory: weights, gradients, optimiser states, activations, caches.

Free of torch, so that plans can ask. Estimates of the peak, per process: they name what dominates and what to turn, and
do not replace a measurement. Shares of ZeRO: Rajbhandari et al. 2020 (arXiv:1910.02054), section 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from components.contract.job import Resources
from components.contract.memory import GIB, Need
from components.modeling.lora import LoraConfig
from components.modeling.model_config import ModelConfig

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
PROCESS = 0.55 * GIB
"""Python with torch and transformers before any model, measured."""
CUDA_CONTEXT = 0.8 * GIB
ENGINE = 0.7 * GIB
"""vLLM's process before any model and without its cache, measured with the CPU build."""
ENGINE_CPU_CACHE = 1.0 * GIB
"""Default of VLLM_CPU_KVCACHE_SPACE, which vLLM's CPU build takes at its start."""
CHUNK_LOGITS = 1 << 25
"""components.modeling.logprobs.CHUNK_ELEMENTS."""
LOGIT_COPIES = 3
"""Logits, their gradient, and a temporary of the softmax."""
SHORT_ATTENTION = 256
"""Sequences up to here keep their attention matrix on a CPU (components/modeling/attention.py)."""
PADDING = 1.25
"""Padded queries, keys and values over unpadded ones."""
TINY_VOCABULARY = 128
"""Tokens of a tokenizer that is built from the corpus, which only the run can count."""


@dataclass(frozen=True)
class ModelSizes:
    """The sizes of a decoder that memory depends on."""

    vocab: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    mlp_width: int
    tied: bool

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> ModelSizes | None:
        """Return the sizes in a config.json of transformers; None where it names them otherwise."""
        text = config.get("text_config") or config
        try:
            heads = text["num_attention_heads"]
            return cls(
                vocab=text["vocab_size"],
                width=text["hidden_size"],
                layers=text["num_hidden_layers"],
                heads=heads,
                kv_heads=text.get("num_key_value_heads") or heads,
                head_width=text.get("head_dim") or text["hidden_size"] // heads,
                mlp_width=text["intermediate_size"],
                tied=bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
            )
        except (KeyError, TypeError):
            return None

    @classmethod
    def new(cls, config: ModelConfig) -> ModelSizes:
        """Return the sizes of a new model."""
        return cls(
            vocab=config.vocab_size or TINY_VOCABULARY,
            width=config.width,
            layers=config.layers,
            heads=config.heads,
            kv_heads=config.kv_heads or config.heads,
            head_width=config.width // config.heads,
            mlp_width=config.mlp_width,
            tied=config.tie_embeddings,
        )

    @property
    def projections(self) -> int:
        """Return the features of fused queries, keys and values."""
        return (self.heads + 2 * self.kv_heads) * self.head_width

    @property
    def parameters(self) -> int:
        """Return the number of weights; biases and norms of heads are left out."""
        inner = self.heads * self.head_width
        layer = self.width * (self.projections + inner + 3 * self.mlp_width + 2)
        return self.vocab * self.width * (1 if self.tied else 2) + self.layers * layer + self.width

    def adapters(self, lora: LoraConfig) -> int:
        """Return the number of weights of LoRA adapters on all target modules."""
        inner, kv = self.heads * self.head_width, self.kv_heads * self.head_width
        sides = {
            "q_proj": (self.width, inner),
            "k_proj": (self.width, kv),
            "v_proj": (self.width, kv),
            "o_proj": (inner, self.width),
            "gate_proj": (self.width, self.mlp_width),
            "up_proj": (self.width, self.mlp_width),
            "down_proj": (self.mlp_width, self.width),
        }
        return self.layers * lora.rank * sum(sum(sides[name]) for name in lora.target_modules if name in sides)

    def activations_per_token(self, longest: int, *, cpu: bool, recompute: bool = False) -> float:
        """Return the numbers that training keeps of each token for its backward pass.

        With `recompute`: what enters each layer, and all of the one that is computed again.
        """
        inner = self.heads * self.head_width
        kept = 4 * self.width + (1 + PADDING) * self.projections + 2 * inner + 3 * self.mlp_width
        if cpu and longest <= SHORT_ATTENTION:
            kept += PADDING * self.heads * longest
        layers = self.layers * self.width + kept if recompute else self.layers * kept
        return layers + 2 * self.width

    def cache_per_token(self) -> int:
        """Return the numbers that generation keeps of each token: keys and values of all layers."""
        return 2 * self.layers * self.kv_heads * self.head_width


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
    """Yield what the weights, their update and one forward and backward pass of `pass_tokens` take.

    `longest` bounds the tokens of one sequence.
    """
    size, cpu = BYTES[dtype], not resources.gpus
    trained = sizes.adapters(lora) if lora else sizes.parameters
    stage = resources.zero_stage if resources.trainer == "deepspeed" else 0
    world = resources.world_size
    share = {level: world if stage >= level else 1 for level in (1, 2, 3)}
    yield Need(
        "weights",
        size * (sizes.parameters + (trained if lora else 0)) / share[3],
        "" if stage == 3 else "backend.zero_stage: 3 (trainer deepspeed)",
        on_host=resources.offload == "all",
    )
    yield Need("gradients", size * trained / share[2], "" if stage >= 2 or lora else "backend.zero_stage: 2")
    yield Need(
        "optimiser states",
        _state_bytes(optimizer, size, sharded=bool(stage)) * trained / share[1],
        "lora" if resources.offload != "none" else "backend.offload: optimizer" if stage else "backend.zero_stage: 1",
        on_host=resources.offload != "none",
    )
    held = sizes.activations_per_token(longest, cpu=cpu, recompute=resources.recompute) * size
    # one sequence has to fit into a pass
    smaller = pass_tokens > longest or resources.recompute
    yield Need(
        "activations", held * pass_tokens, "micro_batch_tokens, smaller" if smaller else "backend.recompute: true"
    )
    logits = min(pass_tokens * sizes.vocab, CHUNK_LOGITS)
    yield Need("logits", LOGIT_COPIES * 4 * logits, "micro_batch_tokens, smaller")
    yield from process_needs(resources)


def process_needs(resources: Resources) -> Iterator[Need]:
    """Yield what a process takes before it does anything."""
    yield Need("libraries", PROCESS, on_host=True)
    if resources.gpus:
        yield Need("CUDA", CUDA_CONTEXT)


def cache_need(sizes: ModelSizes, dtype: str, tokens: int, knob: str) -> Need:
    """Return the keys and values of all tokens that are generated at a time."""
    return Need("key-value cache", 2 * BYTES[dtype] * sizes.cache_per_token() * tokens, knob)


def engine_needs(sizes: ModelSizes, resources: Resources, dtype: str) -> Iterator[Need]:
    """Yield what vLLM's process takes in the memory of the host: each process that trains has one.

    On a GPU its weights lie there while it sleeps; awake, it has a share of the GPU that training's passes do not use.
    """
    knob = "backend.sampler: native"
    yield Need("vLLM", ENGINE, knob, on_host=True)
    yield Need("vLLM's weights", BYTES[dtype] * sizes.parameters, knob, on_host=True)
    if not resources.gpus:
        yield Need("vLLM's cache", ENGINE_CPU_CACHE, "VLLM_CPU_KVCACHE_SPACE, smaller", on_host=True)


def _state_bytes(optimizer: str, size: int, *, sharded: bool) -> int:
    """Return the bytes of optimiser state for each trained weight, all of it float32.

    AdamW keeps two averages and Muon one; weights of lower precision have a copy, and with ZeRO float32 ones, too.
    """
    copies = 1 if sharded or size < 4 else 0
    return 4 * (copies + (1 if optimizer == "muon" else 2))
