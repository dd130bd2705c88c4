"""Memory of the rl stage's further models: those that write, judge or score, and those whose logits are compared."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING

from components.contract.further import asks_of
from components.contract.job import Resources
from components.contract.memory import Moment, Need
from components.modeling.estimates.distillation_memory import teacher_needs
from components.modeling.estimates.further_memory import further_needs
from components.modeling.estimates.memory_needs import logits_need
from components.modeling.estimates.sampling_memory import PROMPT_TOKENS
from components.modeling.models.model_sizes import ModelSizes
from components.rl.compared import compared_by

if TYPE_CHECKING:
    from components.rl.params import RLParams


def rl_further_needs(port: str, sizes: ModelSizes, params: RLParams, resources: Resources) -> Iterator[Need]:
    """Yield the memory of one model of a port for further models.

    One whose logits are compared makes a pass of its own beside each pass of the policy, whose logits are computed once
    more; it draws only if another operator asks it for texts.
    """
    configs = [bound.config for bound in params.operators()]
    compared = [config for config in configs if port in compared_by(config)]
    asked = [config for config in configs if port in asks_of(config) and config not in compared]
    if not compared:
        yield from further_needs(port, sizes, params, resources)
        return
    longest = params.max_new_tokens + PROMPT_TOKENS
    rows = -(-params.prompts_per_step * params.group_size // resources.data_ranks)
    passes = SimpleNamespace(
        max_tokens=longest, micro_batch_tokens=params.micro_batch_tokens, batch_size=rows, dtype=params.dtype
    )
    needs = list(teacher_needs(port, sizes, passes, resources))
    yield from needs
    yield logits_need(sizes, max(longest, min(params.micro_batch_tokens, rows * longest)), Moment.PASS, resources)
    if asked:
        held = {need.name for need in needs}
        yield from (need for need in further_needs(port, sizes, params, resources) if need.name not in held)
