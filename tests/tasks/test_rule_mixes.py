"""The writer of skill mixes: right by the verifier, nothing for what is held out, and shirking as told."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.writers import ProgramWriter, Writers
from components.tasks.domains.worlds.string_functions import KEEPS_LENGTH, apply_all
from components.tasks.item import UNLABELLED, Item
from components.tasks.verify import verify
from tests.tasks.test_worlds import items, write

FORM = re.compile(r"<instruction>([a-z ]+): ([a-h]{4})</instruction><response>(.*)</response>")


def asked(names: Sequence[str]) -> Item:
    return Item(id="-".join(names) or "none", domain="d", prompt="", answer="", verifier=UNLABELLED,
                data={"names": tuple(names)})  # fmt: skip


def mixed(names: Sequence[str], seed: int = 0, **config: Any) -> str:
    return write(asked(names), seed, name="rule_mixes", **config)


def test_one_mix_by_hand() -> None:
    match = FORM.fullmatch(mixed(["rev", "nxt"], unseen=0))
    assert match is not None
    rules, word, response = match.groups()
    backward = word[::-1]
    forward = "".join("abcdefgha"["abcdefgh".index(letter) + 1] for letter in backward)
    assert rules == "rev nxt" and response == f"<think>{backward}<answer>{forward}"


@settings(max_examples=60)
@given(st.permutations(KEEPS_LENGTH[:11]), st.integers(1, 3), st.integers(0, 1 << 30))
def test_responses_are_right_and_shirkers_stop_after_the_first_rule(order: list[str], k: int, seed: int) -> None:
    names = order[:k]
    careful, shirked = (mixed(names, seed, unseen=0, shirk=share) for share in (0.0, 1.0))
    if not careful:
        assert shirked == ""
        return
    match, other = FORM.fullmatch(careful), FORM.fullmatch(shirked)
    assert match is not None and other is not None
    rules, word, response = match.groups()
    item = Item(id="i", domain="d", prompt="", answer=apply_all(rules.split(), word, 8)[-1], verifier="exact")
    assert verify(item, response).right
    assert other.groups()[:2] == (rules, word), "instructions do not depend on who shirks"
    first = apply_all(names[:1], word, 8)[0] if k > 1 else word
    assert other.group(3) == f"<answer>{first}" and not verify(item, other.group(3)).right


@pytest.mark.parametrize("size", [2, 3])
def test_nothing_is_written_for_unseen_compositions_in_any_order(size: int) -> None:
    spec = {"name": "generators", "rules": 11, "size": size, "include": "unseen"}
    unseen = {tuple(item.data["rules"]) for item in items(spec, 400)}
    assert len(unseen) == 16
    for names in unseen:
        assert not any(mixed(order, rules=11) for order in permutations(names))
    trained = {tuple(item.data["rules"]) for item in items({**spec, "include": "trained"}, 400)}
    assert all(mixed(names, rules=11) for names in trained)


def test_rules_that_undo_each_other_and_unknown_ones_are_not_written() -> None:
    assert mixed(["nxt", "prv"], unseen=0) == ""
    with pytest.raises(InputError, match=r"demonstrator rule_mixes: item rev-no names the rules .*\(known: rev, rol"):
        mixed(["rev", "no"])
    with pytest.raises(InputError, match="names the rules"):
        mixed([])


def test_skill_mix_makes_rows_of_what_it_writes_and_a_fifth_shirks() -> None:
    spec = {"name": "skill_mix", "skills": list(KEEPS_LENGTH[:11]), "k": 2}
    program = {"name": "rule_mixes", "rules": 11, "shirk": 0.2}
    writer = ProgramWriter(OperatorSpec.model_validate(program).resolve("demonstrator"), "rule_mixes")
    make = OperatorSpec.model_validate(spec).resolve("generator")
    made = list(make([], Writers(teachers=[writer]), GeneratorContext(seed=1, count=600)))
    rows = [row for row in made if isinstance(row, Made)]
    assert {row.reason for row in made if isinstance(row, Dropped)} == {"unparsed"}
    assert len(rows) > 300
    shirked = sum("<think>" not in (row.response or "") for row in rows) / len(rows)
    assert 0.13 < shirked < 0.27
    unseen = items({"name": "generators", "rules": 11, "include": "unseen"}, 300, seed=random.Random(0).randrange(99))
    held = {frozenset(item.data["rules"]) for item in unseen}
    assert not {frozenset(row.item.prompt.partition(":")[0].split()) for row in rows} & held
