"""The slots of an evaluation. Does not import numpy: recipes are read with it.

An operator is a function with a keyword-only `config`; `call` gives its other arguments. MeasureContext
(components/measure/harness/context.py) has the baseline, further models, and the sampler for one that draws more.
"""

from __future__ import annotations

from components.contract.slots import Plain, Slot
from components.measure.harness.configs import DiagnosticConfig, MetricConfig, StrategyConfig

OPERATORS = f"{__package__}.operators"

METRIC = Slot(
    name="metric",
    package=f"{OPERATORS}.metrics",
    summary="A measure of the responses to each prompt; bootstrapped, and paired with the baseline's",
    call="(outcomes: Sequence[ItemOutcomes], context: MeasureContext) -> Mapping[str, Sequence[float | None]], "
    "name -> a value for each prompt of one domain, None where it has none",
    plain=Plain(
        call="(responses, outcomes, **columns) -> a number for the responses to one prompt, or None",
        takes="responses",
        adapter="components.measure.plain_metric:adapt",
    ),
    many=True,
    config=MetricConfig,
)
DIAGNOSTIC = Slot(
    name="diagnostic",
    package=f"{OPERATORS}.diagnostics",
    summary="A whole view of a model: numbers with intervals, tables and charts",
    call="(outcomes: Mapping[str, Sequence[ItemOutcomes]], context: MeasureContext) -> View, of all domains",
    many=True,
    config=DiagnosticConfig,
)
STRATEGY = Slot(
    name="strategy",
    package=f"{OPERATORS}.strategies",
    summary="How samples are spent at test time: accuracy beside the tokens that it takes",
    call="(outcomes: Sequence[ItemOutcomes], context: MeasureContext) -> Mapping[int, Spent], "
    "budget of samples -> accuracy and tokens of each prompt of one domain",
    many=True,
    config=StrategyConfig,
)
