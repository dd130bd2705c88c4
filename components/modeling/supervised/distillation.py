"""Distillation: the loss of a target where a frozen teacher, perhaps under another prompt, says how likely tokens are.

Shapes: M targets, D and C the widths of model and teacher, V tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedTokenizerBase

from components.contract.errors import InputError
from components.modeling.models.policy import Policy
from components.modeling.packing.chunks import chunk_rows
from components.modeling.packing.logprobs import at_least_float32, token_logprobs
from components.modeling.packing.packed import Packed
from components.modeling.supervised.distillation_config import DistillationConfig
from components.modeling.supervised.divergence import teacher_divergence
from components.modeling.supervised.examples import Example
from components.modeling.supervised.loss import LOSS
from components.modeling.text.prompting import Encoded

DIVERGENCE, CROSS_ENTROPY = "divergence", "cross_entropy"


@dataclass(frozen=True)
class Distillation:
    """An objective: divergence from a teacher, and perhaps cross-entropy, at each target."""

    teacher: Policy
    """Frozen."""
    config: DistillationConfig

    def __call__(self, policy: Policy, packed: Packed, part: Sequence[Example]) -> dict[str, Tensor]:
        """Return [M] losses, and divergences and cross-entropies, which they are made of.

        Logits of model and teacher are held one chunk at a time; several chunks compute theirs again in the backward
        pass.
        """
        hidden, taught = policy.target_hidden(packed), self._taught(part)
        size = chunk_rows(policy.vocab_size, hidden.device)

        def score(own: Tensor, shown: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
            with torch.no_grad():
                expected = self.teacher.logits(shown)
            logits = at_least_float32(policy.logits(own))
            apart = teacher_divergence(logits, expected, temperature=self.config.temperature, top_k=self.config.top_k)
            return apart, -token_logprobs(logits, wanted)

        chunks = list(zip(hidden.split(size), taught.split(size), packed.targets.split(size), strict=True))
        if len(chunks) == 1:
            found = [score(*chunks[0])]
        else:
            found = [checkpoint(score, *chunk, use_reentrant=False) for chunk in chunks]
        divergence, cross_entropy = map(torch.cat, zip(*found, strict=True))
        loss = self.config.divergence * divergence + self.config.cross_entropy * cross_entropy
        return {LOSS: loss, DIVERGENCE: divergence, CROSS_ENTROPY: cross_entropy}

    def _taught(self, part: Sequence[Example]) -> Tensor:
        """Return [M, C]: the teacher's hidden states that predict the targets."""
        read = [example.taught or Encoded(list(example.tokens), list(example.loss_mask)) for example in part]
        packed = Packed.from_sequences(
            [one.tokens for one in read], self.teacher.device, masks=[one.loss_mask for one in read]
        )
        with torch.no_grad():
            return self.teacher.target_hidden(packed)


def check_tokenizers(student: PreTrainedTokenizerBase | None, teacher: PreTrainedTokenizerBase | None) -> None:
    """Raise InputError unless both give the same ids to the same tokens."""
    if student is None or teacher is None:
        raise InputError(f"distillation: the {'teacher' if student else 'model'} has no tokenizer to compare tokens by")
    own, other = student.get_vocab(), teacher.get_vocab()
    if own != other:
        token = min(token for token in own.keys() | other.keys() if own.get(token) != other.get(token))
        raise InputError(
            f"distillation: the teacher has another tokenizer: token {token!r} is {_id(own, token)} in the model and "
            f"{_id(other, token)} in the teacher; distil from a model with the same vocabulary, or train on its texts"
        )


def _id(vocabulary: dict[str, int], token: str) -> str:
    return f"id {vocabulary[token]}" if token in vocabulary else "absent"


def taught(examples: Sequence[Example], read: Sequence[Example]) -> list[Example]:
    """Return examples with what the teacher reads in the place of each; their targets must be the same tokens."""
    found = []
    for number, (own, other) in enumerate(zip(examples, read, strict=True), start=1):
        if _targets(own) != _targets(other):
            raise InputError(
                f"row {number}: the teacher's template ends the response otherwise than the model's, so that targets "
                "differ; distil from a model with the same chat template"
            )
        found.append(replace(own, taught=Encoded(list(other.tokens), list(other.loss_mask))))
    return found


def _targets(example: Example) -> list[int]:
    return [token for token, wanted in zip(example.tokens[1:], example.loss_mask[1:], strict=True) if wanted]
