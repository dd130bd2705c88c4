"""The old policy's mean log-probability over the vocabulary at every position, for ROVER."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch


class VocabularyMeansConfig(SlotConfig):
    """No settings; objective rover sets how the means are used."""

    writes: ClassVar[frozenset[str]] = frozenset({"mean_logprob_n"})


def vocabulary_means(batch: Batch, context: SlotContext, *, config: VocabularyMeansConfig) -> Batch:
    """Mark `mean_logprob_n`: (1/|V|) sum_v log pi_old(v | s_t) at the step's temperature.

    Source: He et al. 2025, ROVER (arXiv:2509.24981): the expectation under the uniform policy.
    """
    from components.modeling.packing.logprobs import mean_logprobs
    from components.rl.step.scoring import frozen_token_map

    means_n = frozen_token_map(
        context.policies.trained,
        batch,
        lambda hidden, _, logits_of: mean_logprobs(logits_of(hidden)),
        context.collector.max_tokens,
        temperature=context.settings.temperature,
    )
    return batch.with_extras(mean_logprob_n=means_n)
