"""Airflow in a home of the tests' own, with the toy package installed; without Airflow, nothing here is collected."""

from __future__ import annotations

import os
import tempfile
from importlib.util import find_spec

if find_spec("airflow") is None:
    collect_ignore_glob = ["test_*.py"]
else:  # read when Airflow is imported, which the tests' modules do
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="posttrain-airflow-")
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    os.environ["POSTTRAIN_AIRFLOW_GRAPHS"] = tempfile.mkdtemp(prefix="posttrain-graphs-")
    os.environ["AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT"] = "300"  # of wall time: a busy machine is no broken recipe
