"""What held-out comparisons say of a policy: how many it ranks right, and how far the chosen response stands above."""

from __future__ import annotations

from collections.abc import Sequence

from components.contract.operators import Bound
from components.measure.intervals import Bootstrap, Interval
from components.measure.metrics import metric_key
from components.modeling.models.policy import Policy
from components.preference.batch_loss import ACCURACY, MARGIN, Referred, evaluate_batch
from components.preference.reading import UNNAMED


def measured(policy: Policy, held_out: Sequence[Referred], loss: Bound, max_tokens: int) -> dict[str, float | Interval]:
    """Return validation metrics: the loss, and accuracy and margin with intervals over examples, by domain, too."""
    mean, told = evaluate_batch(policy, held_out, loss, max_tokens=max_tokens)
    found: dict[str, float | Interval] = {
        "validation_loss": mean,
        "validation_accuracy": Bootstrap().mean_interval(told[ACCURACY]),
        "validation_margin": Bootstrap().mean_interval(told[MARGIN]),
    }
    domains = sorted({one.comparison.domain for one in held_out})
    for domain in domains if len(domains) > 1 else ():
        own = [right for one, right in zip(held_out, told[ACCURACY], strict=True) if one.comparison.domain == domain]
        found[metric_key("validation_accuracy", domain or UNNAMED)] = Bootstrap().mean_interval(own)
    return found
