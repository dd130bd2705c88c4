"""How distinct the right responses of each group are."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from components.measure.formulas.distinct import cosines, count_cosines, distinctness, expressions
from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class DistinctnessConfig(SlotConfig):
    """What responses are compared by."""

    reads: ClassVar[frozenset[str]] = frozenset({"outcomes"})
    by: Literal["hidden", "tokens", "pairs"] = "hidden"
    """hidden: the mean hidden state of the starting policy, which stands for a text encoder and costs a forward pass.
    tokens, pairs: how often each token, or each two tokens in a row, occurs."""
    formula_share: float = Field(default=0.5, ge=0, le=1)
    """Weight of the expressions that a response shares with no other; where none has any, content alone counts."""


def right_distinctness(batch: Batch, context: SlotContext, config: DistinctnessConfig) -> Tensor:
    """Return [S] in [0, 1]: of each right response beside the other right ones of its group; NaN for all others.

    A group with one right response has nothing to compare. See components/measure/formulas/distinct.py.
    """
    import torch

    from components.rl.batch.batch import RIGHT
    from components.rl.step.states import response_features

    batch = batch.of_learned()
    right_t, group_t = batch.of_traces(batch.outcomes == RIGHT), batch.of_traces(batch.group)
    features = None
    if config.by == "hidden":
        policy = context.policies.start
        features = batch.of_traces(response_features(policy, batch, max_tokens=context.collector.max_tokens))
    tokens, texts = batch.by_trace(batch.tokens), [batch.texts[row] for row in batch.last_rows.tolist()]
    found_t = torch.full((batch.num_traces,), torch.nan, dtype=torch.float64)
    for group in group_t.unique().tolist():
        traces = ((group_t == group) & right_t).nonzero().squeeze(1)
        if len(traces) < 2:
            continue
        if features is not None:
            similar = cosines(features[traces])
        else:
            rows = [tokens[at].tolist() for at in traces.tolist()]
            similar = count_cosines(rows, 2 if config.by == "pairs" else 1)
        held = [expressions(texts[at]) for at in traces.tolist()]
        found_t[traces] = distinctness(similar, held, config.formula_share)
    return batch.to_rows(found_t)
