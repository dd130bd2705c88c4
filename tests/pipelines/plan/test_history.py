"""Why a stage is not cached, in words: what differs between two fingerprints."""

from __future__ import annotations

from typing import Any

from pipelines.plan.history import differences

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
