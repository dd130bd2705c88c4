"""Airflow's assets: registered models, which other DAGs wait for, and the outputs that runs have made.

A registered model is an asset from the start. A Model or Dataset output becomes one when a run first makes it, by way
of its recipe's alias: the recipes together have hundreds of outputs, and most of them are never made here. A DAG of
one's own may still be scheduled on the asset of an output before it exists.
"""

from __future__ import annotations

from airflow.sdk import Asset, AssetAlias

from pipelines.engines.airflow.graphs.drawing import StageDrawing
from pipelines.engines.airflow.names import TAG, model_asset, output_asset


def stage_outlets(stage: StageDrawing, recipe: str) -> list[Asset | AssetAlias]:
    """Return what a stage's task declares: the recipe's alias if it has tracked outputs, and what it registers."""
    registered = [registered_model(name, alias) for name, alias in stage.registered]
    return [*([outputs_alias(recipe)] if stage.tracked else []), *registered]


def outputs_alias(recipe: str) -> AssetAlias:
    """Return the alias through which the outputs of a recipe's runs become assets."""
    return AssetAlias(name=f"{TAG}/{recipe}", group=TAG)


def stage_output(recipe: str, stage: str, port: str) -> Asset:
    """Return the asset of a stage's output."""
    return Asset(name=f"{recipe}/{stage}.{port}", uri=output_asset(recipe, stage, port), group=TAG)


def registered_model(name: str, alias: str) -> Asset:
    """Return the asset of a registered model's alias."""
    return Asset(name=f"{name}@{alias}", uri=model_asset(name, alias), group=TAG)
