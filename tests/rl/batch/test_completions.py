"""Reward functions in users' files: what they are given, as TRL documents it, and what they may return."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from components.contract.errors import OperatorFailed
from components.contract.messages import Message
from components.contract.operator_files import library
from components.contract.operator_files.code import OperatorCode
from components.contract.operators import Bound, OperatorSpec
from components.rl.batch.batch import Batch, Prompt
from components.rl.batch.completions import columns
from components.rl.slots import ADVANTAGE, REWARD, SAMPLER
from components.rl.step.returned import advantages_of, prompts_of, rewards_of
from components.tasks.item import Item
from tests.rl.build import batch_of, context, operator
from tests.rl.trajectories import conversations, single_rows


def function(body: str, signature: str = "completions, **columns", slot: Any = REWARD, **settings: Any) -> Bound:
    text = f"import math\nimport numpy as np\nimport torch\ndef f({signature}):\n    {body}\n"
    code = OperatorCode(file="mine.py", files={"mine.py": text})
    library.keep([code])
    return OperatorSpec.model_validate({"name": code.name("f"), **settings}).resolve(slot)


def batch() -> Batch:
    made = batch_of([[0, 1], [1]], [[2, 1], [3]])
    items = [
        Item(id="a", domain="A", prompt="1+1?", answer="2", verifier="exact", data={"level": 3, "settings": {"x": 1}}),
        Item(id="b", domain="B", prompt="2+2?", answer="4", verifier="exact", data={"source": "own", "answer": "no"}),
    ]
    prompts = tuple(Prompt(item, (1, 2)) for item in items)
    return replace(made, prompts=prompts, texts=("two", "2", "4"))


def test_everything_comes_by_name_with_an_entry_for_each_completion() -> None:
    given = columns(batch())
    ids = given.pop("completion_ids")
    assert [len(row) for row in ids] == [2, 1, 3]
    assert given == {
        "completions": ["two", "2", "4"],
        "prompts": ["1+1?", "1+1?", "2+2?"],
        "answer": ["2", "2", "4"],
        "id": ["a", "a", "b"],
        "domain": ["A", "A", "B"],
        "level": [3, 3, None],
        "source": [None, None, "own"],
    }


def test_conversations_are_messages_and_the_completion_begins_with_the_policys_first_turn() -> None:
    turns = [[[(0, 2), (2, 1)], [(0, 1), (2, 2)]]]
    messages = tuple(
        Message(role=role, content=text)
        for role, text in [("system", "Add."), ("user", "1+1?"), ("assistant", None), ("user", "And 1?")]
    )
    item = Item(id="a", domain="A", prompt="", answer="3", verifier="exact", messages=messages)
    made = conversations([[0, 1]], turns)
    made = replace(made, prompts=(Prompt(item, (1,)),), texts=("3", "4"), earlier_turns=(("2",), ("5",)))
    given = columns(made)
    assert given["prompts"][0] == [{"role": "system", "content": "Add."}, {"role": "user", "content": "1+1?"}]
    assert given["completions"][1] == [
        {"role": "assistant", "content": "5"},
        {"role": "user", "content": "And 1?"},
        {"role": "assistant", "content": "4"},
    ]
    rows = replace(single_rows(made), earlier_turns=((), ("2",), (), ("5",)), texts=("2", "3", "5", "4"))
    assert columns(rows)["completions"] == given["completions"], "the rows of a trajectory are one completion"
    assert function("return [1, 2]")(rows, context()).tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("signature", "body", "rewards"),
    [
        ("completions, **columns", "return [len(text) for text in completions]", [3, 1, 1]),
        ("prompts, completions, answer", "return [c == a for c, a in zip(completions, answer)]", [0, 1, 1]),
        ("completions, level=None, **columns", "return level and [n and n / 2 for n in level]", [1.5, 1.5, 0]),
        ("**columns", "return np.arange(len(columns['completions'])) / 4", [0, 0.25, 0.5]),
        ("completions, completion_ids", "return torch.tensor([len(ids) for ids in completion_ids])", [2, 1, 3]),
        ("*, completions", "return (np.float32(1), np.bool_(True), torch.tensor(0.5))", [1, 1, 0.5]),
        ("completions", "return [None, 1, None]", [0, 1, 0]),
    ],
)
def test_signatures_and_values(signature: str, body: str, rewards: list[float]) -> None:
    found = function(body, signature)(batch(), context())
    assert found.dtype == torch.float32
    assert found.tolist() == rewards


def test_nan_means_that_it_could_not_say() -> None:
    found = function("return [1, math.nan, 2]")(batch(), context())
    assert found.isnan().tolist() == [False, True, False]


def test_the_weight_of_a_plain_function_is_set_in_the_recipe() -> None:
    assert function("return [1]", weight=0.25).config.model_dump() == {"weight": 0.25}


@pytest.mark.parametrize(
    ("signature", "body", "said"),
    [
        ("completions", "return [1, 2]", "returned 2 numbers for 3 completions"),
        ("completions", "return 1.0", "returned a float, expected a list with a number for each of 3 completions"),
        ("completions", "pass", "returned a NoneType, expected a list"),
        ("completions", "return 'abc'", "returned a str, expected a list"),
        ("completions", "return ['1', 2, 3]", "returned a str for completion 0, expected a number"),
        ("completions", "return [1, [2], 3]", "returned a list for completion 1, expected a number"),
        ("completions", "return torch.full((3,), torch.inf)", "returned inf for completion 0"),
        ("completions", "return torch.ones(3, 2)", "returned a list for completion 0"),
        (
            "completions, solution, hint",
            "return [1, 2, 3]",
            r"takes hint, solution, which these rows lack \(they have: ",
        ),
    ],
)
def test_what_no_reward_can_be_names_operator_and_line(signature: str, body: str, said: str) -> None:
    with pytest.raises(OperatorFailed, match=f"reward operator mine.py:f {said}.*mine.py:4") as caught:
        function(body, signature)(batch(), context())
    assert caught.value.edit == "mine.py:4"


def test_without_a_response_it_is_not_called() -> None:
    assert function("raise ValueError")(batch().select(torch.tensor([], dtype=torch.long)), context()).tolist() == []


def test_what_operators_of_the_tree_return_is_checked_too() -> None:
    made, reward = batch_of([[0, 1]]), operator("reward", "verifier")
    assert rewards_of(reward, torch.tensor([1.0, 0.0]), made).tolist() == [1, 0]
    assert rewards_of(reward, torch.tensor([0.0, 1.0, 2.0, torch.nan]), made).tolist()[:3] == [0, 1, 2]
    for wrong, said in [
        (torch.ones(3), r"reward operator 'verifier' returned a tensor of shape \[3\] for 2 responses with 4 tokens"),
        (torch.tensor([1.0, torch.inf]), "returned inf at position 1, expected finite numbers"),
        ([1.0, 0.0], "returned a list, expected a Tensor"),
    ]:
        with pytest.raises(OperatorFailed, match=said) as caught:
            rewards_of(reward, wrong, made)
        assert caught.value.edit is None
    advantage = operator("advantage", "group_mean")
    assert advantage.slot is ADVANTAGE
    assert advantages_of(advantage, made, made) is made
    with pytest.raises(OperatorFailed, match="for 2 responses with 4 tokens"):
        advantages_of(advantage, torch.ones(5), made)
    sampler = operator("sampler", "epoch_shuffle")
    assert prompts_of(sampler, torch.tensor([1, 0]), 2) == [1, 0]
    for wrong, said in [
        (3, "returned an int, expected a list"),
        ([2], "returned the index 2 into a pool of 2 prompts"),
    ]:
        with pytest.raises(OperatorFailed, match=said):
            prompts_of(sampler, wrong, 2)


def test_the_slots_own_signature_returns_a_list_as_well() -> None:
    found = function("return [len(text) for text in batch.texts]", "batch, context")
    assert rewards_of(found, found(batch(), context()), batch()).tolist() == [3, 1, 1]
    chosen = function("return list(range(count))", "pool, count, context", slot=SAMPLER)
    assert chosen([1, 2, 3], 2, context()) == [0, 1]
