"""What a pool adds to a task that runs a stage in its own container: all for which kfp-kubernetes has words."""

from __future__ import annotations

from kfp import kubernetes
from kfp.dsl import PipelineTask

from pipelines.engines.shared import pool_parts
from pipelines.recipe.pods.volumes import Volume
from pipelines.recipe.pools import Pool


def merge_fields(task: PipelineTask, pool: Pool) -> None:
    """Merge them; `refused_fields` tells of the others, before anything is compiled."""
    for name, value in pool.env.items():
        task.set_env_variable(name, value)
    for name, value in {**pool.labels, **pool_parts.queue_labels(pool)}.items():
        kubernetes.add_pod_label(task, name, value)
    for name, value in pool.annotations.items():
        kubernetes.add_pod_annotation(task, name, value)
    for number, volume in enumerate(pool.volumes):
        _mount(task, pool_parts.volume_name(number), volume)
    _node_affinity(task, pool)


def _node_affinity(task: PipelineTask, pool: Pool) -> None:
    found = pool_parts.node_affinity(pool)
    required = found.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    for term in required:  # one of them has to hold
        kubernetes.add_node_affinity(task, match_expressions=term["matchExpressions"])
    for wish in found.get("preferredDuringSchedulingIgnoredDuringExecution", []):
        kubernetes.add_node_affinity(
            task, match_expressions=wish["preference"]["matchExpressions"], weight=wish["weight"]
        )


def _mount(task: PipelineTask, name: str, volume: Volume) -> None:
    if volume.claim:
        kubernetes.mount_pvc(task, volume.claim, volume.mount, sub_path=volume.sub_path or "")
    elif volume.secret:
        kubernetes.use_secret_as_volume(task, volume.secret, volume.mount)
    elif volume.config_map:
        kubernetes.use_config_map_as_volume(task, volume.config_map, volume.mount)
    elif volume.ephemeral:
        wanted = volume.ephemeral
        kubernetes.add_ephemeral_volume(
            task, name, volume.mount, [wanted.access_mode], wanted.size, storage_class_name=wanted.storage_class
        )
    elif volume.empty_dir:
        medium, size = volume.empty_dir.medium or None, volume.empty_dir.size
        kubernetes.empty_dir_mount(task, name, volume.mount, medium=medium, size_limit=size)
