"""Equal numbers of passes on all ranks over a policy with sharded layers, which all ranks gather together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import distributed

from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed


@contextmanager
def equal_passes(policy: Policy) -> Iterator[None]:
    """Let ranks make different numbers of passes inside: those that are done go on, over one token, until all are.

    All ranks must enter it. Without sharded layers it does nothing.
    """
    if not policy.is_sharded:
        yield
        return

    def announce(*_: object) -> None:
        _any_rank(policy, True)

    # Before FSDP's own hook, which gathers the layer.
    handle = policy.layers()[0].register_forward_pre_hook(announce, prepend=True)
    try:
        yield
    finally:
        handle.remove()
    token = Packed.from_sequences([[0]], policy.device, keep_last=True)
    with torch.no_grad():
        while _any_rank(policy, False):
            policy.hidden(token)


def _any_rank(policy: Policy, own: bool) -> bool:
    """Return whether any rank has another pass to make."""
    found = torch.tensor(int(own), device=policy.device)
    distributed.all_reduce(found, op=distributed.ReduceOp.MAX)
    return bool(found)
