"""A run without labels never reads one: poisoned answers change no byte of what it makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.stages.rl_stage import item, make_model, run
from tests.support.stage_context import write_jsonl

pytestmark = pytest.mark.usefixtures("one_thread", "toys")

FREE: dict[str, Any] = {
    "method": "dr-grpo",
    "steps": 3,
    "max_new_tokens": 2,
    "labels": "ignored",
    "rewards": [{"name": "majority_vote", "tag": None}, {"name": "self_certainty", "weight": 0.1}],
}


def poisoned(index: int) -> dict[str, Any]:
    row = item(index)
    return row | {"answer": str(index), "verifier": "numeric", "data": {"aliases": ["p"]}}


def test_poisoned_answers_change_no_byte(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")
    right = write_jsonl(tmp_path / "right", [item(index) for index in range(8)])
    wrong = write_jsonl(tmp_path / "wrong", [poisoned(index) for index in range(8)])
    one, other = (run(tmp_path / name, model, path, **FREE) for name, path in (("one", right), ("other", wrong)))
    assert one.digests == other.digests
    assert one.history == other.history and "pass_rate" not in one.history[0]
    assert all(row["grad_norm"] > 0 for row in one.history)
    changed = run(tmp_path / "used", model, wrong, **FREE | {"labels": "used", "rewards": FREE["rewards"][:1]})
    assert changed.digests["rollouts"] != one.digests["rollouts"]  # where labels are used, rows hold them
