"""Names of what belongs to a stage of a run on the cluster. They follow from the run: each driver finds them."""

from __future__ import annotations

import hashlib

from components.contract.job import Job

STAGE_KEY = "posttrain.dev/stage-key"
"""Label that all works, pods and leases of one stage of one run have, whatever the lengths of their names."""
POD = "POSTTRAIN_POD"
"""Variable with the name of a driver's own pod: host names are cut at 63 characters, and pods of Kubeflow have 68."""
MAX_STAGE = 24
"""Characters of a stage's name that are kept: names of pods have 63 in all."""


def stage_key_of(run_id: str, stage: str) -> str:
    """Return the text of fixed length by which all objects of one stage of one run are found."""
    return hashlib.sha256(f"{run_id}\0{stage}".encode()).hexdigest()[:16]


def work_name(job: Job, number: int) -> str:
    """Return the name of a try's work; tries are counted from 0. A driver that comes later finds the same name."""
    mark = hashlib.sha256(f"{job.run_id}\0{job.stage}\0{number}".encode()).hexdigest()[:8]
    short = "".join(letter if letter.isalnum() else "-" for letter in job.stage.lower())[:MAX_STAGE].strip("-")
    return f"{short or 'stage'}-{mark}" if not short[:1].isdigit() else f"s-{short}-{mark}"
