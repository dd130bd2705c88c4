"""Reward missing_end: by hand, as TRL's formula, and beside another reward in a step."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.rl.params import RLParams
from tests.rl.build import batch_of, context, operator


def penalties(finished: list[bool], trace: list[int] | None = None, **config: float) -> list[float]:
    batch = batch_of([[0.0] * len(finished)], [[2] * len(finished)])
    batch = replace(batch, finished=torch.tensor(finished))
    if trace is not None:
        batch = replace(batch, trace=torch.tensor(trace))
    return operator("reward", "missing_end", **config)(batch, context(0)).tolist()


def test_what_was_cut_pays() -> None:
    assert penalties([True, False, True, False]) == [0.0, -1.0, 0.0, -1.0]
    assert penalties([True, False], penalty=0.25) == [0.0, -0.25]


def test_rows_of_one_trajectory_pay_together() -> None:
    assert penalties([True, False, True, True], trace=[0, 0, 1, 1]) == [-1.0, -1.0, 0.0, 0.0]


def test_a_step_in_which_nothing_could_be_verified_has_none() -> None:
    none = batch_of([[0.0]], [[2]]).select(torch.tensor([], dtype=torch.long))
    assert operator("reward", "missing_end")(none, context(0)).shape == (0,)


@given(
    rows=st.lists(st.tuples(st.booleans(), st.floats(-5, 5, width=32)), min_size=1, max_size=8),
    penalty=st.floats(0.125, 4, width=32),
)
def test_beside_scores_it_is_trls_formula(rows: list[tuple[bool, float]], penalty: float) -> None:
    finished, scores = zip(*rows, strict=True)
    theirs = torch.tensor(scores)
    theirs[~torch.tensor(finished)] -= penalty
    ours = torch.tensor(scores) + torch.tensor(penalties(list(finished), penalty=penalty))
    torch.testing.assert_close(ours, theirs)


def test_a_penalty_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="penalty"):
        RLParams.model_validate(
            {"method": "rloo", "steps": 1, "rewards": ["scorer", {"name": "missing_end", "penalty": 0}]}
        )
