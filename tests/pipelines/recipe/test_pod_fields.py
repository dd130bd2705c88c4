"""Fields of a pool where clusters differ: Kubernetes' words, refusals with file and line, and nothing dangerous."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipelines.language.problems import RecipeErrors
from pipelines.recipe.pods.volumes import Volume
from pipelines.recipe.pools import Pool, load_pools
from tests.pipelines.open_pool import OPEN, PAIR, SIZE


def refused(tmp_path: Path, text: str) -> list[tuple[int, int, str]]:
    """Return line, column and message of every problem of a file of pools."""
    path = tmp_path / "pools.yaml"
    path.write_text(text)
    with pytest.raises(RecipeErrors) as caught:
        load_pools(path)
    assert str(path) in str(caught.value)
    return [(problem.mark.line, problem.mark.column, problem.message) for problem in caught.value.problems]


def test_a_pool_survives_the_way_to_its_driver() -> None:
    pool = Pool.model_validate({**PAIR, **OPEN})
    assert Pool.model_validate_json(pool.model_dump_json(exclude_defaults=True)) == pool
    assert pool.grace_period == 120
    assert pool.env["POSTTRAIN_VLLM_GPU_MEMORY"] == "0.6"
    assert pool.affinity is not None
    assert pool.affinity.manifest() == OPEN["affinity"]


def test_a_pool_that_says_none_of_it_is_written_as_before() -> None:
    told = json.loads(Pool.model_validate(SIZE).model_dump_json(exclude_defaults=True))
    assert told == {"cpus": 96, "memory_gib": 1600.0}


def test_every_mistake_has_its_line(tmp_path: Path) -> None:
    found = refused(
        tmp_path,
        """\
env: {cpus: 1, memory_gib: 4, env: {PATH: /tmp, A: "$(B)", C: "{{ x }}", D: true}}
labels: {cpus: 1, memory_gib: 4, labels: {posttrain.dev/role: mlflow, app.kubernetes.io/name: mlflow, a: "b c"}}
queue: {cpus: 1, memory_gib: 4, labels: {kueue.x-k8s.io/queue-name: q}, queue: My_Queue}
resources: {cpus: 1, memory_gib: 4, resources: {cpu: 3, nvidia.com/gpu: 1, a.b/c: 0}}
kinds: {cpus: 1, memory_gib: 4, resources: {a.b/c: 3Gi}}
disk: {cpus: 1, memory_gib: 4, ephemeral_storage: 500}
typo: {cpus: 1, memory_gib: 4, affinity: {nodeAfinity: {}}}
terms: {cpus: 1, memory_gib: 4, affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [3]}}}
none: {cpus: 1, memory_gib: 4, topology: {required: rack}}
grace: {cpus: 1, memory_gib: 4, grace_period: soon}
host: {cpus: 1, memory_gib: 4, volumes: [{mount: /data, hostPath: /}]}
two: {cpus: 1, memory_gib: 4, volumes: [{mount: /data, claim: a, secret: b}]}
same: {cpus: 1, memory_gib: 4, volumes: [{mount: /data, claim: a}, {mount: /data, claim: b}]}
""",
    )
    assert [(line, column) for line, column, _ in found] == [
        (1, 43),
        (1, 52),
        (1, 63),
        (1, 77),
        (2, 63),
        (2, 95),
        (2, 106),
        (3, 69),
        (3, 80),
        (4, 54),
        (4, 73),
        (4, 83),
        (5, 8),
        (6, 51),
        (7, 43),
        (8, 108),
        (9, 7),
        (10, 47),
        (11, 57),
        (12, 41),
        (13, 7),
    ]
    messages = [message for _, _, message in found]
    assert (
        messages[0] == "pool 'env', env.PATH: got '/tmp', PATH is set by posttrain or the cluster; a pool cannot set it"
    )
    assert (
        messages[13]
        == "pool 'disk', ephemeral_storage: got 500, expected an amount of bytes with its unit, such as 500Gi"
    )
    assert messages[8].startswith("pool 'queue', queue: got 'My_Queue', expected the name of a Kubernetes object")
    assert messages[10] == "pool 'resources', resources.nvidia.com/gpu: got 1, GPUs are the pool's 'gpus'"
    assert "unknown key 'nodeAfinity'; did you mean 'nodeAffinity'?" in messages[14]
    assert messages[16] == "pool 'none': a pool with a 'topology' has several 'nodes', which it keeps together"
    assert messages[20] == "pool 'same': two volumes are mounted at /data"


def test_a_secret_is_refused_and_not_repeated(tmp_path: Path) -> None:
    found = refused(
        tmp_path, "a: {cpus: 1, memory_gib: 4, env: {HF_TOKEN: hf_very_secret, AWS_SECRET_ACCESS_KEY: x}}\n"
    )
    assert [(line, column) for line, column, _ in found] == [(1, 45), (1, 84)]
    assert "HF_TOKEN looks like a secret; put it into a Secret" in found[0][2]
    assert not any("very_secret" in message for _, _, message in found)
    assert Pool.model_validate({**SIZE, "env": {"TOKENIZERS_PARALLELISM": "false"}}).env


def test_a_fabric_and_its_pool_do_not_say_the_same(tmp_path: Path) -> None:
    fabric = {"resources": {"a.b/c": 1}, "environment": {"NCCL_DEBUG": "INFO"}}
    for more in ({"resources": {"a.b/c": 1}}, {"env": {"NCCL_DEBUG": "WARN"}}):
        with pytest.raises(ValidationError, match="is in 'fabric' and in the pool itself"):
            Pool.model_validate({**PAIR, "fabric": fabric, **more})


@pytest.mark.parametrize(
    "mount",
    [
        "/",
        "/usr/lib",
        "/proc",
        "/opt/venv/bin",
        "/var/run/secrets/eks",
        "/a/../etc",
        "data",
        "/data/",
        "//data",
        "/a:b",
        "/a\n",
    ],
)
def test_no_volume_hides_the_image_or_the_system(mount: str) -> None:
    with pytest.raises(ValidationError):
        Volume.model_validate({"mount": mount, "claim": "a"})


@given(st.text(max_size=30))
def test_a_mount_is_a_plain_path_of_its_own(text: str) -> None:
    try:
        volume = Volume.model_validate({"mount": text, "claim": "a"})
    except ValidationError:
        return
    parts = volume.mount.split("/")
    assert parts[0] == "" and all(part not in ("", ".", "..") for part in parts[1:]) and volume.mount.isprintable()
    assert parts[1] not in ("usr", "bin", "sbin", "lib", "lib64", "proc", "sys", "dev", "boot")


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_variable_reaches_the_container_as_it_is_or_not_at_all(name: str, value: str) -> None:
    try:
        env = Pool.model_validate({**SIZE, "env": {name: value}}).env
    except ValidationError:
        return
    assert env == {name: value}
    assert name.isidentifier() and name.isascii() and value.isprintable()
    assert not any(mark in value for mark in ("$(", "{{", "{%"))
