"""Airflow's entry: every recipe of pipelines/recipes and of the folders in POSTTRAIN_RECIPES becomes a DAG."""

from __future__ import annotations

from pipelines.engines.airflow.dag import airflow_dags

globals().update(airflow_dags())
