"""No method makes the whole vocabulary's log-probabilities where it needs those of the sampled tokens only."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from components.rl.presets import bind, load_preset, preset_names
from tests.rl.step.test_loop import folder, loop_of
from tests.rl.test_golden_steps import OTHER_ROWS

assert folder  # the fixture of the starting model

READERS = {
    "vocabulary_means": "ROVER's mean over the vocabulary",
    "rover": "ROVER's mean over the vocabulary",
    "min_p_proxy": "Lp-Reg's proxy: the distribution without its noise tokens",
    "lp_reg": "Lp-Reg's divergence from that proxy",
}
"""Operators whose formula has a sum over the vocabulary at the positions that they pick."""
WHOLE = {torch.ops.aten._log_softmax.default, torch.ops.aten._softmax.default}


class Softmaxes(TorchDispatchMode):
    """Counts softmaxes over the vocabulary outside generation."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.vocab_size, self.rows = vocab_size, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in WHOLE and args[0].shape[-1] == self.vocab_size and not torch.is_inference_mode_enabled():
            self.rows += args[0].shape[0]
        return func(*args, **(kwargs or {}))


def rows_of_a_step(folder: Any, **given: Any) -> int:
    """Return how many positions got a softmax over the vocabulary in one step."""
    loop = loop_of(folder, group_size=8, **given)
    made = Softmaxes(loop.policies.trained.vocab_size)
    with made:
        loop.step()
    return made.rows


def test_the_count_sees_what_an_entropy_bonus_makes(folder: Any) -> None:
    assert rows_of_a_step(folder, method="dapo", regularizers=["entropy"]) >= 32
    assert rows_of_a_step(folder, method="dapo") == 0


@pytest.mark.parametrize("slug", sorted(set(preset_names()) - set(OTHER_ROWS)))
def test_only_methods_that_need_the_vocabulary_make_it(slug: str, folder: Any) -> None:
    slots = bind(load_preset(slug).slots)
    names = {bound.name for _, bound in slots.places()}
    rows = rows_of_a_step(folder, method=slug)
    assert rows == 0 or slots.needs_entropy or names & set(READERS), f"{rows} positions"
