"""Made worlds: the demonstrator is right, mutations and hostile answers are wrong, parts are apart, seeds repeat."""

from __future__ import annotations

import json
import random
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorRefused, OperatorSpec
from components.tasks.mutations import mutate
from components.tasks.source import SourceRequest
from components.tasks.verify import Outcome, verify
from tests.tasks.test_worlds import items, write

TRACE = {"name": "choice", "demonstrator": "chain_sum_trace"}
WORLDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "functions": ({"name": "functions", "max_level": 3}, {"name": "functions"}),
    "functions shown": ({"name": "functions", "shown": True, "names": "func", "max_level": 5}, {"name": "functions"}),
    "biographies": ({"name": "biographies"}, {"name": "biographies"}),
    "remembered": ({"name": "biographies", "task": "remembered"}, {"name": "biographies"}),
    "told chains": ({"name": "biographies", "task": "told", "atom_hops": 3}, {"name": "biographies"}),
    "zero shot": ({"name": "biographies", "split": "zero_shot", "max_hops": 4}, {"name": "biographies"}),
    "generators": ({"name": "generators"}, {"name": "generators"}),
    "triples": ({"name": "generators", "size": 3, "include": "unseen"}, {"name": "generators", "think": False}),
    "concepts": ({"name": "concepts", "rules": ["rev", "nxt", "end"], "need": ["mir"]}, {"name": "concepts"}),
    "graded_choice": ({"name": "graded_choice"}, TRACE),
    "claims": ({"name": "claims"}, {"name": "claims"}),
    "beams": ({"name": "beams", "wordings": 3}, {"name": "beams"}),
    "moved beams": ({"name": "beams", "supports": "moved", "max_loads": 3}, {"name": "beams", "think": False}),
    "views": ({"name": "views", "views": 5}, {"name": "views"}),
    "dialects": ({"name": "dialects", "speech": "dialect"}, {"name": "gold"}),
    "pipelines": ({"name": "pipelines", "max_steps": 3}, {"name": "pipelines", "think": True}),
}  # fmt: skip
HOSTILE = [
    "<script>alert(1)</script>",
    "\x00\x1b[2J\u2028\ud800",
    "a" * 200_000,
    "1 " * 200_000,
    "rev " * 100_000,
    "(" * 50_000 + ")" * 50_000,
    "\\boxed{" * 20_000,
    "=" * 100_000,
    "P=" * 100_000,
    "1e999999999 1e999999999",
    "9" * 100_000,
    "__import__('os').system('true')",
    "<answer>" * 20_000,
]


@pytest.mark.parametrize("world", WORLDS)
@settings(max_examples=15)
@given(seed=st.integers(0, 1 << 40))
def test_the_demonstrator_is_right_and_mutations_are_wrong(world: str, seed: int) -> None:
    source, demonstrator = WORLDS[world]
    rng = random.Random(seed)
    for item in items(source, 3, seed):
        assert verify(item, write(item, seed, **demonstrator)).right
        assert verify(item, f"<answer>{item.answer}").right
        for _ in range(4):
            mutated = mutate(item.answer, rng)
            verdict = verify(item, f"<answer>{mutated}")
            assert verdict.outcome is Outcome.WRONG, (item.prompt, item.answer, mutated)
        json.dumps(item.data)


@pytest.mark.parametrize("world", WORLDS)
def test_the_same_seed_gives_the_same_rows_and_parts_share_none(world: str) -> None:
    source, _ = WORLDS[world]
    assert items(source, 40, 5) == items(source, 40, 5)
    assert items(source, 40, 5) != items(source, 40, 6)
    held = {item.prompt for item in items({**source, "part": [0, 0.3]}, 150, 1)}
    trained = {item.prompt for item in items({**source, "part": [0.3, 1]}, 300, 2)}
    assert held and trained and not held & trained


@pytest.mark.parametrize("world", WORLDS)
def test_hostile_answers_are_wrong_and_soon(world: str) -> None:
    (item,) = items(WORLDS[world][0], 1, 3)
    begun = time.process_time()
    for text in HOSTILE:
        for response in (text, f"<answer>{text}", f"<answer>{item.answer} {text}"):
            if item.verifier == "choice" and response.startswith(f"<answer>{item.answer} "):
                continue  # `B because ...` chooses B, whatever the reason
            verdict = verify(item, response)
            assert verdict.outcome is Outcome.WRONG and len(verdict.detail) < 1_000_000, response[:60]
    assert time.process_time() - begun < 5


def test_a_demonstrator_refuses_another_source_s_item_in_a_line() -> None:
    (item,) = items({"name": "notes"}, 1)
    for name in ("functions", "biographies", "generators", "claims", "beams", "views", "pipelines"):
        with pytest.raises(InputError, match=f"demonstrator {name}: item .* is not of source {name}"):
            write(item, name=name)


@pytest.mark.parametrize(
    "spec, said",
    [
        ({"name": "functions", "min_level": 3, "max_level": 2}, "min_level 3 is above max_level 2"),
        ({"name": "functions", "functions": 4, "held_out": 4, "include": "trained"}, "no function is trained"),
        ({"name": "functions", "max_length": 20}, "max_length 20 is above max_result 16"),
        ({"name": "biographies", "fresh": 4}, "leave none to train"),
        ({"name": "biographies", "atom_hops": 2}, "composites have max_hops"),
        ({"name": "biographies", "task": "told", "split": "iid"}, "task told has no split iid"),
        ({"name": "generators", "generators": 60, "unseen": 60}, "12 rules have .* different compositions of 2"),
        ({"name": "generators", "include": "unseen", "unseen": 0}, "include: unseen, and unseen is 0"),
        ({"name": "concepts", "rules": ["revv"]}, "no rule is called 'revv'; did you mean 'rev'"),
        ({"name": "concepts", "rules": ["rev", "nxt"], "size": 3}, "rows of 3 rules, and there are 2"),
        ({"name": "graded_choice", "weights": [1, 1]}, "6 grades need as many weights"),
        ({"name": "graded_choice", "options": 8}, "8 options need a spread of 7"),
        ({"name": "claims", "min_terms": 4}, "min_terms 4 is above max_terms 3"),
        ({"name": "beams", "max_loads": 5, "min_length": 3}, "a beam of 3 has no 5 places"),
        ({"name": "views", "given": 5}, "given 5 is above fields 4"),
        ({"name": "views", "fields": 8, "list_right": True}, "more than 1000 fillings"),
        ({"name": "pipelines", "min_steps": 3}, "min_steps 3 is above max_steps 2"),
        ({"name": "beams", "part": [0.5, 0.5]}, "expected 0 <= low < high <= 1"),
    ],
)
def test_contradictory_settings_are_refused_in_a_line(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(OperatorRefused, match=said):
        items(spec, 1)


def test_settings_that_no_row_meets_are_told_while_rows_are_read() -> None:
    with pytest.raises(InputError, match=r"kinds \['parity'\] have no 3 claims"):
        items({"name": "claims", "kinds": ["parity"]}, 1)


def test_a_source_draws_no_more_than_it_is_asked() -> None:
    for source, _ in WORLDS.values():
        rows = OperatorSpec.model_validate(source).resolve("source")(SourceRequest(0, 3, Path())).rows
        assert len(list(islice(rows, 10))) == 3
