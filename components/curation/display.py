"""How reports show a dataset that the chain of checks went through."""

from __future__ import annotations

from components.contract.display import Bars


def rows_before_and_after(title: str, lead: str) -> Bars:
    """Return the histograms of a dataset's card, before the checks and after, with its counts."""
    return Bars(
        title=title,
        lead=lead,
        port="dataset",
        file="card.json",
        bars="histograms",
        groups=("before", "after"),
        facts={
            "num_rows": "{} rows",
            "kind": "kind: {}",
            "num_drawn": "{} drawn",
            "drops.<reason>": "dropped as <reason>: {}",
        },
    )
