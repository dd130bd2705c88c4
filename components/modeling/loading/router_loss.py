"""The load-balancing loss of mixtures of experts, as transformers computes it for each architecture.

Fedus et al. 2021 (Switch Transformer, arXiv:2101.03961), section 2.2: experts x sum over experts of the share of tokens
that are sent to one x the router's mean probability of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from transformers import PreTrainedModel

RouterLoss = Callable[[Sequence[Tensor], Tensor], Tensor]
"""From each layer's router logits [B * W, experts] and the attention mask [B, W] to the loss times its coefficient."""


def router_loss(model: PreTrainedModel) -> RouterLoss | None:
    """Return the loss that a model's config.json asks for by `output_router_logits`; None if it does not."""
    function = getattr(sys.modules[type(model).__module__], "load_balancing_loss_func", None)
    if function is None or not getattr(model.config.get_text_config(), "output_router_logits", False):
        return None

    def loss(logits: Sequence[Tensor], mask: Tensor) -> Tensor:
        found = function(tuple(logits), model.num_experts, model.num_experts_per_tok, mask)
        return model.router_aux_loss_coef * found

    return loss
