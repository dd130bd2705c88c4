"""Rollout group_by_domain: sizes and order by hand, seeds, a whole step, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from components.contract.errors import InputError
from components.rl.batch.batch import Batch
from tests.rl.build import operator
from tests.rl.tiny_loop import loop_of, write_model


def step_of(tmp_path: Path, seed: int = 0, **given: Any) -> tuple[Batch, dict[str, float]]:
    folder = tmp_path / "policy"
    if not folder.exists():
        write_model(folder)
    loop = loop_of(folder, method="rloo", prompts_per_step=6, seed=seed, **given)
    kept: list[Batch] = []
    loop.journal = lambda got, step: kept.append(got.batch)
    metrics = loop.step()
    return kept[0], metrics


def test_each_domain_has_its_size_and_prompts_keep_their_order(tmp_path: Path) -> None:
    plain, _ = step_of(tmp_path)
    batch, metrics = step_of(tmp_path, rollout={"name": "group_by_domain", "sizes": {"A": 2}})
    assert [prompt.item.id for prompt in batch.prompts] == [prompt.item.id for prompt in plain.prompts]
    assert len({prompt.item.domain for prompt in batch.prompts}) == 2
    for group, prompt in enumerate(batch.prompts):
        assert int((batch.group == group).sum()) == {"A": 2, "B": 4}[prompt.item.domain]
    assert metrics["num_samples"] == batch.num_responses


def test_one_size_for_all_is_rollout_group(tmp_path: Path) -> None:
    plain, _ = step_of(tmp_path)
    batch, _ = step_of(tmp_path, rollout={"name": "group_by_domain", "sizes": {"C": 1}})
    assert batch.texts == plain.texts and batch.group.tolist() == plain.group.tolist()


def test_more_than_the_stage_plans_for_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="domain 'A' would get 5 responses to a prompt, and group_size, the most of any"
    ):
        step_of(tmp_path, rollout={"name": "group_by_domain", "sizes": {"A": 5}})


@pytest.mark.parametrize("sizes", [{}, {"A": 0}])
def test_bad_sizes_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises((InputError, ValidationError)):
        operator("rollout", "group_by_domain", sizes=sizes)
