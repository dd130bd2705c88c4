"""Names that a recipe and its runs have in Kubeflow. Imports no kfp."""

from __future__ import annotations

import hashlib
import keyword
from datetime import UTC, datetime

PLAN = "posttrain-plan"
END = "posttrain-end"
"""Tasks that begin and end a run."""
STORE = "posttrain_store"
SET = "posttrain_set"
SEED = "seed"
"""Parameters of a pipeline beside the recipe's own."""
TRIGGER = "posttrain_trigger"
"""Parameter of a pipeline with a schedule: when a recurring run was due; empty for a run that a person starts."""
SCHEDULED_TIME = "[[ScheduledTime]]"
"""Becomes the time of a recurring run, in UTC."""
RUN_ID = "posttrain_run"
"""Parameter of a part's pipeline: the run in the ledger."""
OWN = (STORE, SET, TRIGGER)
LABEL = "posttrain.dev/"
COMPONENT = f"{LABEL}component"
"""Labels of pods."""
EXECUTOR_INPUT = "{{$}}"
"""Becomes what Kubeflow knows of a task, as JSON."""
RUN_PLACEHOLDER = "{{$.pipeline_job_uuid}}"
"""Becomes the id of Kubeflow's run, where it is a constant input of a task."""


def task_name(stage: str) -> str:
    """Return the name of a stage's task: names of Kubernetes hold no '_'."""
    return stage.replace("_", "-")


def part_task(number: int) -> str:
    """Return the name of the task of a part; parts are counted from 1."""
    return f"posttrain-part-{number}"


def approval_task(stage: str) -> str:
    """Return the name of the task that asks a person before a stage."""
    return f"{task_name(stage)}-approve"


def identifier(name: str) -> str:
    """Return a name of ours as kfp takes it for an input: an identifier of Python that is no keyword."""
    text = name.replace("-", "_")
    return f"{text}_" if keyword.iskeyword(text) else text


def many_input(port: str, number: int) -> str:
    """Return the input for one of the references of a port that has several; they are counted from 1."""
    return f"{identifier(port)}_{number}"


def numbered_port(name: str) -> str | None:
    """Return the port, as an identifier, of an input that `many_input` named; None for another."""
    port, _, number = name.rpartition("_")
    return port if number.isdecimal() else None


def run_key(kubeflow_run: str) -> str:
    """Return the store's key that leads from Kubeflow's run to ours, or to why it was refused."""
    return f"kubeflow/{kubeflow_run}.json"


def parts_place(kubeflow_run: str) -> str:
    """Return where the store's keys of a run's parts begin."""
    return f"kubeflow/{kubeflow_run}/parts/"


def part_key(kubeflow_run: str, number: int) -> str:
    """Return the store's key that leads from Kubeflow's run to that of one of its parts."""
    return f"{parts_place(kubeflow_run)}{number}.json"


def new_run_id(recipe: str, kubeflow_run: str) -> str:
    """Return recipe, UTC time and eight digits of a hash; like every run id, it sorts by time."""
    digits = hashlib.sha256(f"{recipe}\0{kubeflow_run}".encode()).hexdigest()[:8]
    return f"{recipe}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{digits}"
