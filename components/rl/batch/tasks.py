"""The responses of some tasks, and how far each is from the reference.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from components.rl.batch.batch import Batch


def of_domains(batch: Batch, domains: Sequence[str]) -> Tensor:
    """Return [S] bool: the rows whose prompt is of one of the domains; all rows if none is named."""
    chosen = [not domains or prompt.item.domain in domains for prompt in batch.prompts]
    return torch.tensor(chosen, dtype=torch.bool)[batch.group.cpu()].to(batch.group.device)


def divergence_of(batch: Batch) -> Tensor:
    """Return [S]: log pi_old(y|x) - log pi_ref(y|x), summed over the response's tokens."""
    return batch.response_sum(batch.old_logprobs - batch.reference_logprobs)


def means_by_domain(batch: Batch, rows: Tensor, values: Mapping[str, Tensor]) -> dict[str, float]:
    """Return `<name>_<domain>`: the mean of each value [S] over the rows of a mask [S], by domain."""
    domains = [batch.prompts[group].item.domain for group in batch.group.tolist()]
    found: dict[str, float] = {}
    for domain in dict.fromkeys(domains):
        here = rows & torch.tensor([each == domain for each in domains])
        if bool(here.any()):
            found |= {f"{name}_{domain}": float(value[here].double().mean()) for name, value in values.items()}
    return found
