"""Recipes over the toy components, one for each feature of pipelines, and the pools and settings that they need."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml
from google.protobuf import json_format
from kfp.kubernetes import kubernetes_executor_config_pb2
from kfp.pipeline_spec import pipeline_spec_pb2

from pipelines.engines.kubeflow.compiler.compiler import compile_recipe
from pipelines.engines.kubeflow.compiler.settings import Settings
from pipelines.recipe.recipe import load_recipe
from tests.pipelines.engines.kubeflow.conftest import CPU, GPU

ROOT = Path(__file__).parents[4]
PLUGIN = ROOT / "tests" / "pipelines" / "plugin"
FOLDER = Path(__file__).parent
RECIPES = sorted((FOLDER / "recipes").glob("*.yaml"))
POOLS = """\
cpu: {cpus: 1, memory_gib: 4}
h100x8: {cpus: 96, memory_gib: 1600, gpus: 8, gpu_type: h100}
gpus:
  cpus: 7
  memory_gib: 27.5
  gpus: 1
  gpu_type: l4
  shared_memory_gib: 8
  node_selector: {posttrain.dev/pool: gpus}
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}, {key: spot, value: "yes"}]
pair:
  cpus: 96
  memory_gib: 1600
  gpus: 8
  gpu_type: h100
  nodes: 2
  trainer: deepspeed
  priority_class: training
  shared_memory_gib: 256
  node_selector: {posttrain.dev/pool: h100x8}
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
"""
ENVIRONMENT = {
    "POSTTRAIN_IMAGE_CPU": CPU,
    "POSTTRAIN_IMAGE_GPU": GPU,
    "POSTTRAIN_KUBEFLOW_SECRETS": "store-access:AWS_ACCESS_KEY_ID+AWS_SECRET_ACCESS_KEY,hub:HF_TOKEN",
    "POSTTRAIN_KUBEFLOW_CONFIG_MAPS": "store-endpoint:AWS_ENDPOINT_URL+MLFLOW_TRACKING_URI",
}


def compiled(
    path: Path | str,
    environment: dict[str, str] = ENVIRONMENT,
    store: str | None = None,
    overrides: Sequence[str] = (),
) -> str:
    """Return the pipeline of a recipe, as it is compiled for whatever its parameters may ask for."""
    recipe, settings = load_recipe(str(path), overrides, whole=True), Settings.read(environment)
    with ThreadPoolExecutor(1) as fresh:  # kfp looks at the whole stack for each setting, and pytest's is a deep one
        return fresh.submit(compile_recipe, recipe, settings, store=store).result()


def parsed(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return pipeline and platform after a strict parse with the messages that Kubeflow itself uses.

    A field that they do not know is an error, at every level.
    """
    documents = list(yaml.load_all(text, yaml.CSafeLoader))
    spec = json_format.ParseDict(documents[0], pipeline_spec_pb2.PipelineSpec())
    deployment = json_format.MessageToDict(spec.deployment_spec)
    json_format.ParseDict(deployment, pipeline_spec_pb2.PipelineDeploymentConfig())
    platform = json_format.ParseDict(documents[1], pipeline_spec_pb2.PlatformSpec())
    executors = json_format.MessageToDict(platform.platforms["kubernetes"].deployment_spec)["executors"]
    for executor in executors.values():
        json_format.ParseDict(executor, kubernetes_executor_config_pb2.KubernetesExecutorConfig())
    assert executors.keys() == deployment["executors"].keys()
    return documents[0], executors


def executor_of(pipeline: dict[str, Any], task: str) -> str:
    """Return the name of the executor of a task below the exit handler."""
    label: str = pipeline["components"][tasks_of(pipeline)[task]["componentRef"]["name"]]["executorLabel"]
    return label


def tasks_of(pipeline: dict[str, Any]) -> dict[str, Any]:
    """Return the tasks below the exit handler."""
    return pipeline["components"]["comp-exit-handler-1"]["dag"]["tasks"]


def project_environment(folder: Path) -> dict[str, str]:
    """Return the variables of a project in a folder, with its pools, its store and the toy components."""
    (folder / "pools.yaml").write_text(POOLS)
    return {
        **ENVIRONMENT,
        "POSTTRAIN_POOLS": str(folder / "pools.yaml"),
        "POSTTRAIN_STORE": str(folder / "store"),
        "POSTTRAIN_LINEAGE": "later",
        "PYTHONPATH": os.pathsep.join([str(PLUGIN), str(ROOT)]),
        "PYTHONWARNINGS": "ignore",
    }
