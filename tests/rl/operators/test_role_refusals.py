"""Turns of rollout roles that cannot be played, and when partners have to be connected."""

from __future__ import annotations

from typing import Any

import pytest

from components.contract.operators import OperatorRefused
from components.rl.component import asks
from components.rl.params import RLParams
from tests.rl.build import operator
from tests.rl.operators.test_roles import ACTOR, CRITIC, TURNS

REFUSED = [
    ([ACTOR], "nothing to learn from"),
    ([{"role": "actor"}, CRITIC, CRITIC], "'critic' is there twice"),
    ([{"role": "actor"}, {"role": "critic"}], "only the first turn"),
    ([{"role": "actor"}, CRITIC | {"question": "check {reviser}"}], r"nothing fills \{reviser\}"),
    ([CRITIC], r"nothing fills \{actor\}"),
    (
        [{"role": "actor"}, CRITIC | {"judges": "reviser"}],
        "judges 'reviser', which is no.* there is actor",
    ),
    ([{"role": "actor"}, CRITIC, CRITIC | {"role": "second", "judges": "critic"}], "judges 'critic'"),
    ([{"role": "actor"}, CRITIC | {"words": ["Good", "good "]}], "two different texts"),
    ([{"role": "actor", "temperature": 0}], "learned: false"),
    ([{"role": "actor", "model": 0}], "by: partner"),
    ([ACTOR | {"model": "sft.model"}, CRITIC], "model"),
    ([ACTOR | {"temperature": 0, "samples": 4}, CRITIC], "at temperature 0 all 4 samples are the same"),
    ([{"role": "prompt"}], "no role has that name"),
    ([], "at least 1"),
]


@pytest.mark.parametrize(("turns", "why"), REFUSED)
def test_turns_that_cannot_be_played_are_refused(turns: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(OperatorRefused, match=why):
        operator("rollout", "roles", turns=turns)


def test_partners_are_required_only_where_a_turn_is_theirs() -> None:
    alone = {"name": "roles", "turns": [{"role": "actor"}, CRITIC]}
    assert asks(RLParams.model_validate({"rollout": alone})) == {}
    shared = {"name": "roles", "turns": TURNS}
    assert asks(RLParams.model_validate({"rollout": shared})) == {"partners": ["rollout operator 'roles'"]}
