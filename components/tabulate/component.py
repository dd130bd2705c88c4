"""Declaration of the tabulate stage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.display import Column, Form, Role, Table
from components.pages.pages import DOCUMENT
from components.tabulate.params import TabulateParams
from components.tabulate.place import PAGE


def sources(params: TabulateParams) -> Iterator[Path]:
    """Yield the page's templates."""
    yield from (PAGE, DOCUMENT)


COMPONENT = Component(
    name="tabulate",
    summary="One table from the evaluations of many arms: transfer matrix, grids, equal tokens, a fitted mixture",
    inputs={
        "metrics": Port(
            type=ArtifactType.METRICS, doc="Evaluations of all arms; their ledgers are compared", many=True
        ),
        "training": Port(
            type=ArtifactType.METRICS,
            doc="Metrics of their rl stages, for a comparison at equal sampled tokens",
            many=True,
            optional=True,
        ),
    },
    outputs={
        "metrics": Port(type=ArtifactType.METRICS, doc="Every cell with its interval, and the fitted mixture"),
        "report": Port(type=ArtifactType.REPORT, doc="The table as a page, and as table.json"),
    },
    params=TabulateParams,
    run="components.tabulate.run:run",
    image="cpu",
    cells={"cells": "metrics", "training_cells": "training"},
    metrics={
        "value_<arm>_<domain>": "pass@1 of an arm on one domain",
        "difference_<arm>_<domain>": "The same minus the baseline's, paired by prompt and repeat",
        "share_<domain>": "A domain's share in the fitted mixture",
        "predicted": "What the fitted surface predicts at that mixture",
        "predicted_uniform": "What it predicts at equal shares",
        "best_measured": "The best objective of a mixture that was measured",
        "rank_correlation_quadratic": "Rank correlation of predictions and results of mixtures left out of the fit",
        "rank_correlation_linear": "The same of a linear surface",
        "equal_tokens": "Sampled tokens at which trainings are compared",
        "num_arms": "Arms of the table",
    },
    role=Role.OTHER,
    report=(
        Table(
            title="Arms",
            lead="Every arm on every domain.",
            port="report",
            file="table.json",
            rows="rows",
            marked=("is_baseline", True),
            columns=(
                Column(value="arm", title="arm"),
                Column(value="num_repeats", title="repeats"),
                Column(value="values.<domain>", title="pass@1 <domain>, %", form=Form.SHARE),
                Column(value="differences.<domain>", title="minus the baseline <domain>, points", form=Form.SHARE),
            ),
        ),
    ),
    sources=sources,
)
