"""The sizes of a decoder, as its config.json names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from components.modeling.models.families import with_defaults
from components.modeling.models.gpus import tensor_parallel_size
from components.modeling.models.lora import EXPERTS, LoraConfig, stored_targets
from components.modeling.models.model_config import ModelConfig

TINY_VOCABULARY = 128
"""Assumed vocabulary of a tokenizer that the run builds from the corpus; its size is unknown before."""


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
    """Inner width of the gated MLP, or of one expert."""
    tied: bool
    experts: int = 0
    """Experts of each layer; 0 for a dense model."""
    experts_per_token: int = 1
    norms: int = 2
    """Norms of a layer, without those of heads."""
    fused: bool = False
    """Whether queries, keys and values are one layer, and gate and up too (Phi-3)."""
    capped: bool = False
    """Whether attention scores are capped, so that their matrix is kept (Gemma 2)."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> ModelSizes | None:
        """Return the sizes in a config.json of transformers; None if its keys are not the usual ones."""
        text = with_defaults(config.get("text_config") or config)
        try:
            heads = text["num_attention_heads"]
            return cls(
                vocab=text["vocab_size"],
                width=text["hidden_size"],
                layers=text["num_hidden_layers"],
                heads=heads,
                kv_heads=text.get("num_key_value_heads") or heads,
                head_width=text.get("head_dim") or text["hidden_size"] // heads,
                mlp_width=text.get("moe_intermediate_size") or text["intermediate_size"],
                tied=bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
                experts=text.get("num_local_experts") or text.get("num_experts") or 0,
                experts_per_token=text.get("num_experts_per_tok") or 1,
                norms=4 if text.get("model_type") in ("gemma2", "gemma3_text") else 2,
                fused=text.get("model_type") == "phi3",
                capped=text.get("attn_logit_softcapping") is not None,
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

    def part(self, tensor: int) -> ModelSizes:
        """Return the sizes of one of `tensor` ranks' parts; ranks have copies of key heads where these are fewer."""
        return replace(
            self,
            vocab=-(-self.vocab // tensor),
            heads=-(-self.heads // tensor),
            kv_heads=-(-self.kv_heads // tensor),
            mlp_width=-(-self.mlp_width // tensor),
        )

    def why_not_parted(self, tensor: int) -> str | None:
        """Return why `tensor` ranks cannot have a part of each matrix, and what to do, or None if they can."""
        if tensor == 1:
            return None
        sizes = {"heads": self.heads, "MLP features": self.mlp_width, "tokens of the vocabulary": self.vocab}
        uneven = [f"{size} {name}" for name, size in sizes.items() if size % tensor]
        uneven += [f"{self.kv_heads} key heads"] if self.kv_heads % tensor and tensor % self.kv_heads else []
        if self.experts:
            return f"tensor_parallel {tensor}: a model with experts is not parted; leave tensor_parallel out"
        if not uneven:
            return None
        fitting = ", ".join(str(count) for count in range(1, tensor) if self.why_not_parted(count) is None)
        what = f"the model's {', '.join(uneven)} are not parted evenly"
        return f"tensor_parallel {tensor}: {what}; take one of {fitting}"

    @property
    def projections(self) -> int:
        """Return the features of fused queries, keys and values."""
        return (self.heads + 2 * self.kv_heads) * self.head_width

    @property
    def parameters(self) -> int:
        """Return the number of weights, of all experts, without biases and head norms."""
        inner = self.heads * self.head_width
        mlp = self.experts * (3 * self.mlp_width + 1) if self.experts else 3 * self.mlp_width  # and the router's row
        layer = self.width * (self.projections + inner + mlp + self.norms)
        return self.vocab * self.width * (1 if self.tied else 2) + self.layers * layer + self.width

    @property
    def matrices(self) -> int:
        """Return the number of weights in the matrices of the blocks, of all experts, without routers."""
        inner = self.heads * self.head_width
        return self.layers * self.width * (self.projections + inner + max(self.experts, 1) * 3 * self.mlp_width)

    def adapters(self, lora: LoraConfig) -> int:
        """Return the number of weights of LoRA adapters on all target modules."""
        inner, kv = self.heads * self.head_width, self.kv_heads * self.head_width
        sides = {"o_proj": (inner, self.width)}
        if self.fused:
            sides["qkv_proj"] = (self.width, self.projections)
        else:
            sides |= {"q_proj": (self.width, inner), "k_proj": (self.width, kv), "v_proj": (self.width, kv)}
        mlp = {"gate_up_proj": (self.width, 2 * self.mlp_width), "down_proj": (self.mlp_width, self.width)}
        if self.experts:
            sides[EXPERTS] = (self.experts * sum(sum(pair) for pair in mlp.values()), 0)
        elif self.fused:
            sides |= mlp
        else:
            half = (self.width, self.mlp_width)
            sides |= {"gate_proj": half, "up_proj": half, "down_proj": mlp["down_proj"]}
        targets = stored_targets(lora.target_modules, sides)
        return self.layers * lora.rank * sum(sum(sides[name]) for name in targets if name in sides)

    def most_gpus(self, gpus: int) -> int:
        """Return the most GPUs, up to `gpus`, that vLLM splits the model over."""
        return tensor_parallel_size(gpus, heads=self.heads, kv_heads=self.kv_heads, mlp_width=self.mlp_width)

    def engine_gpus(self, weights: float, *, own: int, node: int, memory: float | None, share: float) -> int:
        """Return how many GPUs vLLM splits the model over where ranks hold shards of it: one rank's, or several ranks'.

        As few as leave half of vLLM's share of a GPU's `memory`, in bytes, to its cache. `weights` is the bytes of the
        model, `own` the GPUs of a rank, `node` those of a node.
        """
        fitting = [gpus for gpus in range(own, node + 1, own) if node % gpus == 0 and self.most_gpus(gpus) == gpus]
        if memory is None or not fitting:
            return own
        return next((gpus for gpus in fitting if weights / gpus <= share * memory / 2), fitting[-1])

    def cache_per_token(self) -> int:
        """Return how many numbers generation caches for each token: keys and values of all layers."""
        return 2 * self.layers * self.kv_heads * self.head_width
