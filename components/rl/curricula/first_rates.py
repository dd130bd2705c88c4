"""Pass rates before training: from an earlier stage's ledger, or from the first visit in this stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.rl.batch.batch import Prompt
    from components.rl.step.context import SlotContext
    from components.rl.step.ledger import PassRates


def first_rates(ledger: PassRates, prompt_ids: Sequence[str]) -> list[float | None]:
    """Return for each prompt the pass rate in the input ledger, else that of this stage's first visit, else None.

    Later visits do not change it.
    """
    wanted = set(prompt_ids)
    own: dict[str, list[int]] = {name: [0, 0] for name in wanted}
    first: dict[str, float] = {}
    for visit in ledger.visits(since_step=0):
        if visit.prompt_id in wanted:
            own[visit.prompt_id][0] += visit.num_right
            own[visit.prompt_id][1] += visit.num_wrong
            if visit.pass_rate is not None:
                first.setdefault(visit.prompt_id, visit.pass_rate)
    found: list[float | None] = []
    for name in prompt_ids:
        total = ledger.get(name)
        right, wrong = (total.num_right - own[name][0], total.num_wrong - own[name][1]) if total else (0, 0)
        found.append(right / (right + wrong) if right + wrong else first.get(name))
    return found


def profile(pool: Sequence[Prompt], context: SlotContext, num_samples: int) -> list[float]:
    """Return every prompt's first pass rate, at the first call of a run; unknown ones are probed with `num_samples`.

    A prompt whose verifications all failed has 0.
    """
    ids = [prompt.item.id for prompt in pool]
    known = first_rates(context.ledger, ids)
    unknown = [index for index, rate in enumerate(known) if rate is None]
    probed = context.collector.probe([pool[index] for index in unknown], num_samples).tolist() if unknown else []
    rates = [rate if rate is not None else 0.0 for rate in known]
    for index, rate in zip(unknown, probed, strict=True):
        rates[index] = rate if rate == rate else 0.0  # NaN: nothing could be verified
    return rates
