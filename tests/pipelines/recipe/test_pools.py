"""Pools: the shipped file, and refusals with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.backends import Backends, given_backends
from components.contract.errors import InputError
from components.contract.job import Resources
from pipelines.language.problems import RecipeErrors
from pipelines.recipe.pools import FILE, load_pools
from pipelines.recipe.recipe import load_recipe

pytestmark = pytest.mark.usefixtures("toy_catalog")


def test_the_shipped_pools() -> None:
    pools = load_pools()
    assert pools["cpu"].resources("cpu") == Resources(pool="cpu", cpus=1, threads=1, memory_gib=4)
    assert pools["h100x16"].gpu_count == 16
    assert pools["h100x8-spot"].spot
    assert {pool.gpu_type for pool in pools.values()} == {None, "l4", "h100"}
    assert all(pool.tolerations and pool.shared_memory_gib for pool in pools.values() if pool.gpus)
    assert pools["cpu"].runs_on == "worker"
    assert all(pool.runs_on == "pod" and pool.priority_class for pool in pools.values() if pool.node_selector)
    assert all(pool.shared_memory_gib < pool.memory_gib for pool in pools.values())


def test_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pools.yaml"
    path.write_text("mine: {cpus: 2, memory_gib: 8, price_per_hour: 0.5}\n")
    monkeypatch.setenv("POSTTRAIN_POOLS", str(path))
    assert list(load_pools()) == ["mine"]
    assert FILE.is_file()
    monkeypatch.setenv("POSTTRAIN_POOLS", str(tmp_path / "none.yaml"))
    with pytest.raises(InputError, match="POSTTRAIN_POOLS"):
        load_pools()


def test_prices_are_of_a_node_or_of_a_gpu(tmp_path: Path) -> None:
    path = tmp_path / "pools.yaml"
    gpu = "cpus: 8, memory_gib: 8, gpus: 4, gpu_type: l4, nodes: 2"
    path.write_text(
        f"""\
node: {{{gpu}, price_per_hour: 10, currency: EUR}}
gpu: {{{gpu}, price_per_gpu_hour: 2.5, currency: EUR}}
free: {{{gpu}}}
"""
    )
    pools = load_pools(path)
    paid = {"cpus": 16, "gpus": 8, "price_per_hour": 20.0, "currency": "EUR"}
    assert pools["node"].rate("node").to_record() == {"pool": "node", **paid}
    assert pools["gpu"].rate("gpu").to_record() == {"pool": "gpu", **paid}
    assert pools["free"].rate("free").to_record() == {"pool": "free", "cpus": 16, "gpus": 8}
    path.write_text(
        f"""\
both: {{{gpu}, price_per_hour: 10, price_per_gpu_hour: 2}}
none: {{cpus: 1, memory_gib: 1, price_per_gpu_hour: 2}}
coin: {{cpus: 1, memory_gib: 1, currency: EUR}}
word: {{cpus: 1, memory_gib: 1, price_per_hour: 1, currency: euros}}
less: {{cpus: 1, memory_gib: 1, price_per_hour: -1}}
"""
    )
    with pytest.raises(RecipeErrors) as refused:
        load_pools(path)
    assert [problem.mark.line for problem in refused.value.problems] == [1, 2, 3, 4, 5]


def test_where_pools_run_that_do_not_say_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pools.yaml"
    path.write_text("silent: {cpus: 2, memory_gib: 8}\nhere: {cpus: 2, memory_gib: 8, runs_on: worker}\n")
    assert {name: pool.runs_on for name, pool in load_pools(path).items()} == {"silent": "worker", "here": "worker"}
    monkeypatch.setenv("POSTTRAIN_RUNS_ON", "pod")
    assert {name: pool.runs_on for name, pool in load_pools(path).items()} == {"silent": "pod", "here": "worker"}
    monkeypatch.setenv("POSTTRAIN_RUNS_ON", "cloud")
    with pytest.raises(InputError, match="POSTTRAIN_RUNS_ON='cloud': expected worker or pod"):
        load_pools(path)


def test_every_mistake_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "pools.yaml"
    path.write_text(
        """\
cpu: {cpus: 0, memory_gib: 4}
large: {cpus: 1.5, memory_gib: lots}
gpu: {cpus: 1, memory_gib: 4, gpus: 1}
Big: {cpus: 1, memory_gib: 4}
typo: {cpus: 1, memory_gb: 4}
taint: {cpus: 1, memory_gib: 4, tolerations: [{key: a, operator: Exists, value: b}, {key: "a b"}]}
label: {cpus: 1, memory_gib: 4, node_selector: {kind: "x; y"}}
engine: {cpus: 1, memory_gib: 4, runs_on: pods}
tag: {cpus: 1, memory_gib: 4, image: "registry.example/stages:1.2"}
class: {cpus: 1, memory_gib: 4, priority_class: High_Priority}
zero: {cpus: 1, memory_gib: 4, zero_stage: 3}
many: {cpus: 1, memory_gib: 4, trainer: deepspeed, zero_stage: 4}
"""
    )
    with pytest.raises(RecipeErrors) as caught:
        load_pools(path)
    found = [(problem.mark.line, problem.mark.column, problem.message) for problem in caught.value.problems]
    assert [(line, column) for line, column, _ in found] == [
        (1, 13),
        (2, 15),
        (2, 32),
        (3, 6),
        (4, 1),
        (5, 17),
        (6, 47),
        (6, 91),
        (7, 55),
        (8, 43),
        (9, 38),
        (10, 49),
        (11, 7),
        (12, 64),
    ]
    assert found[0][2] == "pool 'cpu', cpus: got 0, expected a number of at least 1"
    assert found[3][2] == "pool 'gpu': a pool with 'gpus' names its 'gpu_type', and only such a pool does"
    assert found[9][2] == "pool 'engine', runs_on: got 'pods', expected one of worker, pod; did you mean 'pod'?"
    assert found[10][2].endswith("expected an image by its digest: name@sha256:<64 hexadecimal digits>")
    assert "unknown key 'memory_gb'; did you mean 'memory_gib'?" in found[5][2]


def test_backends_of_a_pool_and_what_a_recipe_says_instead() -> None:
    pool = load_pools()["h100x16"]
    assert pool.resources("h100x16").world_size == 16
    assert (pool.sampler, pool.trainer, pool.zero_stage, pool.gpu_memory_gib) == ("vllm", "deepspeed", 3, 80)
    sharded = pool.resources("h100x16", Backends(trainer="fsdp"))
    assert (sharded.trainer, sharded.zero_stage, sharded.world_size, sharded.sampler) == ("fsdp", 2, 16, "vllm")
    lower = pool.resources("h100x16", Backends(zero_stage=2, offload="optimizer"))
    assert (lower.trainer, lower.zero_stage, lower.offload, lower.sampler) == ("deepspeed", 2, "optimizer", "vllm")
    plain = pool.resources("h100x16", Backends(trainer="torch"))
    assert (plain.trainer, plain.zero_stage, plain.world_size, plain.sampler) == ("torch", 2, 1, "vllm")
    assert given_backends(load_pools()["cpu"].resources("cpu")) == {}


def test_every_pool_with_gpus_says_how_much_memory_they_have() -> None:
    assert all(pool.gpu_memory_gib for pool in load_pools().values() if pool.gpus)


def test_a_spot_pool_retries_unless_the_recipe_says_how_often(tmp_path: Path) -> None:
    pools = "spot: {cpus: 1, memory_gib: 1, spot: true}\nkept: {cpus: 1, memory_gib: 1}\n"
    (tmp_path / "pools.yaml").write_text(pools)
    (tmp_path / "toy.yaml").write_text(
        """\
name: toy
stages:
  kept: {uses: curate, pool: kept}
  spot: {uses: curate, pool: spot}
  zero: {uses: curate, pool: spot, retries: 0}
  five: {uses: curate, pool: spot, retries: 5}
"""
    )
    recipe = load_recipe(str(tmp_path / "toy.yaml"), pools=load_pools(tmp_path / "pools.yaml"))
    assert {s.name: s.retry.retries for s in recipe.stages} == {"kept": 0, "spot": 3, "zero": 0, "five": 5}
