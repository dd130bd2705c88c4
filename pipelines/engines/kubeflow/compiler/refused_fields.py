"""Fields of a pool that a task of Kubeflow cannot have: kfp-kubernetes has no words for them. Imports no kfp."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.recipe.pools import Pool


def task_refusals(name: str, pool: Pool) -> Iterator[str]:
    """Yield why a stage cannot run in its task's own container; with `runs_on: pod` the task only drives it."""
    if pool.runs_on == "pod":
        return
    affinity = pool.affinity
    given = {
        "resources": bool(pool.extended_resources),
        "ephemeral_storage": pool.ephemeral_storage is not None,
        "grace_period": pool.grace_period is not None,
        "affinity among pods": affinity is not None and bool(affinity.pod_affinity or affinity.pod_anti_affinity),
        "volumes of csi": any(volume.csi for volume in pool.volumes),
        "volumes at /tmp": any(volume.mount == "/tmp" for volume in pool.volumes),
        "sub_path or read_only of volumes": any(
            volume.read_only or (volume.sub_path and not volume.claim) for volume in pool.volumes
        ),
    }
    if found := [word for word, is_given in given.items() if is_given]:
        words = ", ".join(found)
        yield f"pool {name!r} has {words}, which Kubeflow's own tasks cannot have: set 'runs_on: pod' there"
