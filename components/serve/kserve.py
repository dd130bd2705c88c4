"""The model as a KServe InferenceService: the Hugging Face runtime, whose engine is vLLM, on what the pool has."""

from __future__ import annotations

from typing import Any

import yaml

from components.serve.params import ServeParams

MANIFEST = "inferenceservice.yaml"
BUCKET = "s3://BUCKET/store"
HEAD = f"""\
# The model that stage serve measured, for a cluster with KServe: kubectl apply -f {MANIFEST}
# It was made from the stage's parameters and pool. It has not been run on a cluster.
"""
NO_BUCKET = (
    "# The store is a folder: bring its objects into a bucket that the cluster reads, and name that in storageUri.\n"
)
DIGITS = 12


def storage_uri(store: str, digest: str) -> str:
    """Return where a cluster finds a model's files in the store; of a folder, where they would be in a bucket."""
    return f"{store.rstrip('/') if is_bucket(store) else BUCKET}/objects/{digest}/files"


def is_bucket(store: str) -> bool:
    """Return whether a cluster can read the store."""
    return store.startswith("s3://")


def manifest(given: ServeParams, *, store: str, digest: str) -> str:
    """Return the manifest as YAML; what `given` leaves open is left out."""
    name = given.service or f"posttrain-{digest[:DIGITS]}"
    resources: dict[str, Any] = {"cpu": given.cluster_cpus and str(given.cluster_cpus)}
    resources["memory"] = given.cluster_memory_gib and f"{given.cluster_memory_gib:g}Gi"
    resources["nvidia.com/gpu"] = given.cluster_gpus and str(given.cluster_gpus)
    resources = {what: amount for what, amount in resources.items() if amount}
    split = [f"--tensor-parallel-size={given.cluster_gpus}"] if (given.cluster_gpus or 0) > 1 else []
    model = {
        "modelFormat": {"name": "huggingface"},
        "storageUri": given.storage_uri or storage_uri(store, digest),
        "args": [f"--model_name={name}", f"--dtype={given.dtype}", *split],
        "resources": {"requests": resources, "limits": dict(resources)},
    }
    metadata = {
        "name": name,
        "labels": {"app.kubernetes.io/managed-by": "posttrain"},
        "annotations": {"posttrain.dev/model": digest},
    }
    found = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": metadata,
        "spec": {"predictor": {"minReplicas": 1, "model": model}},
    }
    note = "" if given.storage_uri or is_bucket(store) else NO_BUCKET
    return HEAD + note + yaml.safe_dump(found, sort_keys=False)
