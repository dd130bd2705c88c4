"""Why a stage is not cached, in words: what differs between two fingerprints."""

from __future__ import annotations

from pipelines.history import differences


def test_differences_in_words() -> None:
    parts = {"epoch": 1, "component": "rl", "params": {"a": 1, "b": {"c": 2}}, "seed": 1}
    parts |= {"inputs": {"model": ["x"]}, "code": {"a.py": "1", "b.py": "2"}}
    changed = {"epoch": 2, "component": "rl", "params": {"a": 2, "b": {"c": 3, "d": "y" * 50}}, "seed": 2}
    changed |= {"inputs": {"model": ["y"], "more": []}, "code": {"b.py": "3", "c.py": "4"}}
    assert differences(parts, parts) == []
    assert differences(parts, changed) == [
        "parameter a: 1 -> 2",
        "parameter b.c: 2 -> 3",
        f"parameter b.d: None -> {'y' * 37}...",
        "seed 1 -> 2",
        "input model changed",
        "input more changed",
        "code changed: a.py, b.py, c.py",
        "posttrain's own epoch 1 -> 2",
    ]
    assert differences(parts, parts | {"inputs": {}}, inputs=False) == []


def test_a_file_of_data_that_changed_is_told_as_one_file() -> None:
    parts = {"epoch": 1, "component": "curate", "params": {}, "seed": 1, "inputs": {}}
    before = parts | {"code": {"a.py": "1", f"one.jsonl ({'a' * 12})": "a", f"two (x).jsonl ({'b' * 12})": "b"}}
    now = parts | {"code": {"a.py": "1", f"one.jsonl ({'c' * 12})": "c", f"two (x).jsonl ({'d' * 12})": "d"}}
    assert differences(before, now) == ["file changed: one.jsonl, two (x).jsonl"]
    assert differences(before, now | {"code": now["code"] | {"a.py": "2"}})[0] == "code changed: a.py"
