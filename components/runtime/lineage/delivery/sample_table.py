"""A stage's samples as an MLflow table, by step and reward, for people to read.

One file of one request. Traces would be a request and several database rows for each sample, exported by MLflow in the
background: too slow for the first delivery, and not exactly once after a kill.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from components.contract.errors import CorruptArtifact, InputError
from components.contract.samples import Sample, shortened, spread
from components.runtime.ledger.samples import WRITTEN, stage_samples
from components.runtime.lineage.events import StageFinished
from components.runtime.store import Store

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

TABLE = "samples.json"
"""Path of the table in the MLflow run."""
TABLE_TAG = {"mlflow.loggedArtifacts": json.dumps([{"path": TABLE, "type": "table"}])}
"""Tag that marks the file as a table for MLflow's UI."""
MAX_ROWS = 500
HEAD, TAIL = 4000, 1000
"""Characters of a longer text."""
COLUMNS = ("step", "reward", "outcome", "detail", "domain", "num_tokens", "finished")
TEXTS = ("prompt", "response", "answer")


def write_samples(client: MlflowClient, store: Store, run_id: str, event: StageFinished) -> None:
    """Log what a policy wrote in the stage as a table; samples that are gone or damaged hold nothing else up."""
    try:
        samples = stage_samples(store, event.model_dump(mode="json")["outputs"], WRITTEN)
    except (CorruptArtifact, InputError):
        return
    if samples:
        client.log_text(run_id, sample_table(samples), TABLE)
        for name, value in TABLE_TAG.items():
            client.set_tag(run_id, name, value)


def sample_table(samples: Sequence[Sample]) -> str:
    """Return samples in the format of MLflow's tables (pandas, orient "split").

    Rows are sorted by step, then by reward, worst first. Beyond 500 rows, half of the table is for responses that are
    not right, if there are that many, and each half is sampled evenly. Columns without any value are left out.
    """
    ordered = sorted(samples, key=_place)
    right = [sample for sample in ordered if sample.outcome == "right"]
    others = [sample for sample in ordered if sample.outcome != "right"]
    others = spread(others, max(MAX_ROWS // 2, MAX_ROWS - len(right)))
    kept = [_row(sample) for sample in sorted([*others, *spread(right, MAX_ROWS - len(others))], key=_place)]
    names = dict.fromkeys(name for row in kept for name in row)
    columns = [name for name in names if any(row.get(name) not in (None, "") for row in kept)]
    return json.dumps({"columns": columns, "data": [[row.get(name) for name in columns] for row in kept]})


def _place(sample: Sample) -> tuple[float, float]:
    return sample.step or 0, float("-inf") if sample.reward is None else sample.reward


def _row(sample: Sample) -> dict[str, Any]:
    row = {name: getattr(sample, name) for name in COLUMNS}
    row |= {f"reward_{name}": value for name, value in sample.parts.items()}
    texts = {name: getattr(sample, name) for name in TEXTS}
    row |= {name: text and shortened(text, HEAD, TAIL) for name, text in texts.items()}
    return row | {"prompt_id": sample.prompt_id}
