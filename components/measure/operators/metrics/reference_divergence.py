"""How far a model has moved from the one at `reference`: the divergence, by the responses that it draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from components.contract.errors import InputError
from components.contract.further import REFERENCE
from components.measure.harness.configs import MetricConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes


class ReferenceDivergenceConfig(MetricConfig):
    """No settings of its own."""

    asks: ClassVar[tuple[str, ...]] = (REFERENCE,)
    whole_distribution: ClassVar[bool] = True
    gives: ClassVar[Mapping[str, str]] = {
        "reference_divergence": "Log-ratio of a response under this model and the one at input reference, in nats, the "
        "mean over a prompt's responses: an estimate of the divergence of this model from that one",
    }

    @property
    def reads_model(self) -> bool:
        """Return True: it passes through the measured model."""
        return True


def reference_divergence(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: ReferenceDivergenceConfig
) -> Mapping[str, Sequence[float | None]]:
    """Return for each prompt the mean of log pi(y | x) - log pi_ref(y | x) over its responses y, at temperature 1.

    At temperature 1 that is KL(pi || pi_ref) without bias, in nats a response, its end counted; a prompt's own may be
    below 0. Raises InputError for an endpoint, and another tokenizer. Source: Dong et
    al. 2024, RLHF Workflow (arXiv:2405.07863), section 4: the target is held to pi_0 by this divergence.
    """
    from components.measure.log_ratios import log_ratios
    from components.modeling.serving.local import LocalModel

    model = context.further[REFERENCE][0]
    if not isinstance(model, LocalModel):
        raise InputError(f"reference_divergence: {model.name} is an endpoint, and weights are wanted")
    assert context.sampler is not None
    found = log_ratios(context.sampler.policy, model.policy, outcomes)
    return {"reference_divergence": [sum(here) / len(here) if here else None for here in found]}
