"""The variables of a stage's process on Airflow's worker. Imports no Airflow."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pipelines.engines.shared.launcher import process_environment


def stage_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables of a stage's process: ours, without Airflow's, which hold its secrets."""
    kept = {name: value for name, value in environ.items() if not name.lstrip("_").startswith("AIRFLOW")}
    return process_environment(kept)
