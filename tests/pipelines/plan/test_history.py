"""Why a stage is not cached, in words: what differs between two fingerprints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.runtime.costs.amounts import Rate
from components.runtime.ledger.records import action_key, run_key, stage_key
from components.runtime.store import Store, open_store
from pipelines.plan.history import History, differences

CPU, MORE_CPUS = Rate("cpu", 4, 0), Rate("cpu-large", 16, 0)
H100, H100S, A100 = Rate("h100x1", 16, 1), Rate("h100x8", 128, 8), Rate("a100x1", 16, 1)
TINY, BIG = {"model": ["base.model"]}, {"model": ["hf:Qwen/Qwen2.5-0.5B"]}

PARTS: dict[str, Any] = {
    "epoch": 2,
    "component": "rl",
    "params": {"a": 1, "b": {"c": 2}, "some": [{"name": "x", "count": 1}, {"name": "y"}]},
    "operators": [{"slot": "advantage", "name": "group_mean_std", "config": {"epsilon": 1e-6}}],
    "seed": 1,
    "inputs": {"model": ["x"]},
    "code": {"a.py": "1", "b.py": "2"},
    "packages": {"sympy": "1.13"},
    "verifiers": ["exact"],
}


def with_params(**changes: Any) -> dict[str, Any]:
    return PARTS | {"params": PARTS["params"] | changes}


def test_differences_in_words() -> None:
    changed = with_params(a=2, b={"c": 3, "d": "y" * 50}) | {"seed": 2, "inputs": {"model": ["y"], "more": []}}
    changed |= {"code": {"b.py": "3", "c.py": "4"}, "packages": {"sympy": "1.14"}, "backends": {"trainer": "deepspeed"}}
    assert differences(PARTS, PARTS) == []
    assert differences(PARTS, changed) == [
        "parameter a: 1 -> 2",
        "parameter b.c: 2 -> 3",
        f"parameter b.d: None -> {'y' * 37}...",
        "seed 1 -> 2",
        "input model changed",
        "input more changed",
        "code changed: a.py, b.py, c.py",
        "package sympy: 1.13 -> 1.14",
        "backend trainer: None -> deepspeed",
    ]
    assert differences(PARTS, PARTS | {"inputs": {}}, inputs=False) == []


def test_of_a_list_it_is_said_what_changed_in_it() -> None:
    x, y = PARTS["params"]["some"]
    assert differences(PARTS, with_params(some=[x | {"count": 2}, y])) == ["parameter some.0.count: 1 -> 2"]
    assert differences(PARTS, with_params(some=[x, {"name": "z"}, y])) == ["parameter some: new {'name': 'z'}"]
    assert differences(PARTS, with_params(some=[y])) == ["parameter some: without {'name': 'x', 'count': 1}"]
    assert differences(PARTS, with_params(some=[y | {"count": 3}, y])) == [
        "parameter some.0.name: x -> y",
        "parameter some.0.count: 1 -> 3",
    ]
    assert differences(PARTS, with_params(some=None)) == [f"parameter some: {str([x, y])[:37]}... -> None"]


def test_a_preset_that_changed_is_told_by_its_constants() -> None:
    """The parameters name the method only; where they changed themselves, they say it all."""
    now = PARTS | {"operators": [{"slot": "advantage", "name": "group_mean_std", "config": {"epsilon": 1e-5}}]}
    assert differences(PARTS, now) == ["operator advantage group_mean_std.epsilon: 1e-06 -> 1e-05"]
    twice = PARTS | {"operators": PARTS["operators"] * 2}
    assert differences(PARTS, twice) == ["operator advantage group_mean_std #2.epsilon: None -> 1e-06"]
    assert differences(PARTS, now | {"params": PARTS["params"] | {"a": 3}}) == ["parameter a: 1 -> 3"]


def test_of_another_epoch_no_code_is_compared() -> None:
    """Records of before have neither operators nor packages, and name their code in another way."""
    old = {name: PARTS[name] for name in ("component", "params", "seed", "inputs")} | {
        "epoch": 1,
        "code": {"z.py": "9"},
    }
    assert differences(old, PARTS) == ["posttrain's own epoch 1 -> 2"]


def test_a_file_of_data_that_changed_is_told_as_one_file() -> None:
    parts = {"epoch": 1, "component": "curate", "params": {}, "seed": 1, "inputs": {}}
    before = parts | {"code": {"a.py": "1", f"one.jsonl ({'a' * 12})": "a", f"two (x).jsonl ({'b' * 12})": "b"}}
    now = parts | {"code": {"a.py": "1", f"one.jsonl ({'c' * 12})": "c", f"two (x).jsonl ({'d' * 12})": "d"}}
    assert differences(before, now) == ["file changed: one.jsonl, two (x).jsonl"]
    assert differences(before, now | {"code": now["code"] | {"a.py": "2"}})[0] == "code changed: a.py"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A run of two stages: 19 seconds with a tiny model on a CPU, 300 on an H100."""
    store, run_id = open_store(str(tmp_path / "store")), "mine-20260101-000000-aaaa"
    rates = {"sft": CPU, "rl": H100}
    stages = [{"name": name, "component": name, "rate": rate.to_record()} for name, rate in rates.items()]
    store.put(run_key(run_id), {"stages": stages})
    for (name, _), source, seconds in zip(rates.items(), ("base.model", "sft.model"), (19.0, 300.0), strict=True):
        inputs = {"model": [{"type": "Model", "digest": name, "source": source}]}
        entry = {"component": name, "status": "done", "cache": "miss", "fingerprint": name, "seconds": seconds}
        store.put(stage_key(run_id, name), entry | {"stage": name, "inputs": inputs})
        store.put(action_key(name), {"seconds": seconds, "run_id": run_id, "stage": name})
    return store


@pytest.mark.parametrize(
    ("rate", "models", "seconds"),
    [(CPU, TINY, 19.0), (MORE_CPUS, TINY, 19.0), (CPU, {}, 19.0), (H100, TINY, None), (CPU, BIG, None)],
)
def test_another_pool_or_model_is_no_basis(
    store: Store, rate: Rate, models: dict[str, list[str]], seconds: float | None
) -> None:
    assert History(store, "mine").seconds("sft", "sft", rate, models) == seconds


@pytest.mark.parametrize(("rate", "seconds"), [(H100, 300.0), (H100S, None), (A100, None), (CPU, None)])
def test_of_gpus_kind_and_number_count(store: Store, rate: Rate, seconds: float | None) -> None:
    assert History(store, "mine").seconds("rl", "rl", rate, {"model": ["sft.model"]}) == seconds
    assert History(store, "mine").seconds("new", "rl", rate, {"model": ["sft.model"]}) == seconds, "by its component"


def test_a_stage_behind_another_model_has_another_model_too(store: Store) -> None:
    history = History(store, "mine")
    assert history.seconds("sft", "sft", CPU, BIG) is None
    assert history.seconds("rl", "rl", H100, {"model": ["sft.model"]}) is None
