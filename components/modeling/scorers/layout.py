"""How a reward model's outputs become a reward, as its config.json says. Does not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from components.contract.errors import InputError
from components.contract.heads import SCORES, Head, head_of, in_words

if TYPE_CHECKING:
    from torch import Tensor

KEY = "posttrain_reward"
"""Key of config.json, which transformers keeps and does not read."""
Reward = Literal["only", "mean_of_gaussians", "probability"]
"""only: the one output. mean_of_gaussians: the mean of the first half of the outputs, which are means; the rest are log
standard deviations, bounded by LOG_STD. probability: of the second of two classes."""
LOG_STD = 3.0
"""Bound of a head's log standard deviation, which lies between .05 and 20. Free, it grows without end on pairs that a
head gets wrong, where no spread is the best one, and overflows."""

Over = Literal["lowest", "sum"]
"""lowest: a response is as good as its worst step (Lightman et al. 2023, arXiv:2305.20050, appendix F). sum: of all."""


@dataclass(frozen=True)
class Layout:
    """What a reward model reads, and what its outputs are."""

    head: Head = Head.SCORE
    outputs: int = 1
    reward: Reward = "only"
    separator: str = ""
    """Text behind each step, where the steps of a response are scored; empty: the response is scored at its end."""
    over: Over = "lowest"
    """What the reward of a response is of those of its steps."""

    def reward_of(self, outputs: Tensor) -> Tensor:
        """Return rewards [...] from outputs [..., K]."""
        if self.reward == "mean_of_gaussians":
            return outputs[..., : self.outputs // 2].mean(-1)
        if self.reward == "probability":
            return outputs.softmax(-1)[..., 1]
        return outputs[..., 0]

    def gaussians_of(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the means and the log standard deviations [..., K / 2] of the heads from outputs [..., K].

        The latter are LOG_STD tanh(output / LOG_STD): near 0 the output itself, with a gradient everywhere.
        """
        half = self.outputs // 2
        return outputs[..., :half], LOG_STD * (outputs[..., half:] / LOG_STD).tanh()

    def entries(self) -> dict[str, Any]:
        """Return what config.json holds of it, beside the model's own entries."""
        return {
            "id2label": {str(index): f"LABEL_{index}" for index in range(self.outputs)},
            "label2id": {f"LABEL_{index}": index for index in range(self.outputs)},
            "classifier_dropout": 0.0,
            KEY: {"reward": self.reward, "separator": self.separator, "over": self.over},
        }


def layout_of(config: Mapping[str, Any], name: str) -> Layout:
    """Return the layout of a model with this config.json; `name` begins what is wrong.

    Models that were not made here have one output, or, where steps are scored, one or two classes.
    """
    head = head_of(config)
    if head not in SCORES:
        raise InputError(
            f"{name} is a language model, and a reward model is wanted: take one that stage reward_model made, or a "
            f"folder whose config.json names ...ForSequenceClassification ({in_words(SCORES)} has a head for scores)"
        )
    labels = config.get("id2label")
    outputs = len(labels) if isinstance(labels, Mapping) else config.get("num_labels", 2)
    own = config.get(KEY)
    if isinstance(own, Mapping):
        return Layout(head, outputs, own["reward"], own["separator"], own["over"])
    if outputs == 1:
        return Layout(head, separator="\n" if head == Head.STEPS else "")
    if head == Head.STEPS and outputs == 2:
        return Layout(head, outputs, "probability", "\n")
    raise InputError(f"{name} gives {outputs} numbers for a text, and nothing says which of them is the reward")
