"""Rollout conversation: turns verbatim, budgets, and loops of many methods that learn from the policy's tokens."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
import torch

from components.contract.errors import InputError
from components.modeling.generation.sampler import NativeSampler, Sampler
from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.modeling.text.turns import scripts
from components.rl.batch.batch import ENVIRONMENT, FOREIGN, POLICY, TEMPLATE, Batch, Prompt
from components.rl.params import RLParams
from components.rl.run import build_loop
from components.rl.step.collector import Collector
from components.rl.step.loop import Loop
from components.rl.step.scoring import frozen_logprobs
from components.tasks.item import Item
from components.tasks.verify import Outcome, verify
from tests.modeling.generation.engines import NATIVE, engine_sampler
from tests.rl.build import context, operator, state_again

LIMIT = 3
LETTERS = {"aliases": list(string.ascii_lowercase)}


def items() -> list[Item]:
    """Return conversations of three turns and of two, and a plain prompt; a letter answers each."""

    def messages(count: int) -> list[dict[str, str | None]]:
        found: list[dict[str, str | None]] = [{"role": "user", "content": "ab"}]
        for number in range(count - 1):
            found += [{"role": "assistant", "content": None}, {"role": "user", "content": f"and {number}"}]
        return found

    rows = [{"messages": messages(3)}, {"messages": messages(2)}, {"prompt": "say x"}]
    fixed = {"domain": "A", "answer": "x", "verifier": "exact", "data": LETTERS}
    return [Item.model_validate({"id": f"p{index}", **fixed, **row}) for index, row in enumerate(rows)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_tokenizer([string.ascii_letters], {}, TokenizerConfig(phrases=False, chat_template="roles"))
    made = new_policy(ModelConfig(width=16, layers=1, heads=2, mlp_width=24), tokenizer=tokenizer, seed=0)
    with torch.no_grad():
        made.module.embedding.mul_(20)  # far from uniform, so that contexts differ
    made.save(folder)
    return folder


def pool_of(policy: Policy) -> list[Prompt]:
    found = items()
    tasks = scripts(policy.tokenizer, [item.task for item in found], policy.ends)
    return [Prompt(i, tuple(s.opening), tuple(map(tuple, s.gaps))) for i, s in zip(found, tasks, strict=True)]


def loop_of(folder: Path, *, sampler: Sampler | None = None, policy: Policy | None = None, **given: object) -> Loop:
    policy = policy or load_policy(folder)
    base = {"method": "dr-grpo", "steps": 4, "prompts_per_step": 3, "max_new_tokens": LIMIT}
    rewards = [{"name": "pattern", "pattern": "[a-m]"}]
    optimizer = {"optimizer": {"peak_learning_rate": 1e-2, "warmup_steps": 0}, "start_kl_every": 0}
    params = RLParams.model_validate(
        {**base, "group_size": 4, "rollout": "conversation", "rewards": rewards, **optimizer, **given}
    )
    return build_loop(params, policy, pool_of(policy), start=folder, seed=0, sampler=sampler)


def collector_of(loop: Loop) -> Collector:
    return loop.collector()


@pytest.fixture(scope="module")
def drawn(folder: Path) -> tuple[Loop, Batch]:
    loop = loop_of(folder)
    return loop, collector_of(loop).converse(loop.pool, 8)


def runs(batch: Batch, row: int) -> list[tuple[int, int, list[int]]]:
    """Return author, turn and tokens of each run of a row."""
    end = int(batch.lengths[: row + 1].sum())
    found: list[tuple[int, int, list[int]]] = []
    for at in range(end - int(batch.lengths[row]), end):
        key = (int(batch.author[at]), int(batch.turn[at]))
        if not found or found[-1][:2] != key:
            found.append((*key, []))
        found[-1][2].append(int(batch.tokens[at]))
    return found


def test_a_row_is_the_turns_and_what_stands_between_them(drawn: tuple[Loop, Batch]) -> None:
    loop, batch = drawn
    end, missing = loop.policies.trained.ends.trained, 0
    assert batch.group.tolist() == [0] * 8 + [1] * 8 + [2] * 8 and batch.one_row_each
    for row, group in enumerate(batch.group.tolist()):
        parts, gaps = runs(batch, row), batch.prompts[group].gaps
        own = [tokens for author, _, tokens in parts if author == POLICY]
        assert len(own) == len(gaps) + 1 and all(1 <= len(tokens) <= LIMIT for tokens in own)
        assert [tokens for author, _, tokens in parts if author == ENVIRONMENT] == list(map(list, gaps))
        marks = [turn for author, turn, tokens in parts if author == TEMPLATE and tokens == [end]]
        assert marks == [turn for turn, tokens in enumerate(own[:-1]) if tokens[-1] != end]
        missing += len(marks)
        assert len(batch.earlier_turns[row]) == len(gaps)
    assert torch.equal(batch.learned, batch.author == POLICY)
    assert missing, "no turn was cut: the test shows nothing"


def test_log_probabilities_are_those_of_the_whole_conversation(drawn: tuple[Loop, Batch]) -> None:
    loop, batch = drawn
    own = frozen_logprobs(loop.policies.trained, batch, temperature=1.0, max_tokens=999)
    assert torch.allclose(own[batch.learned], batch.old_logprobs[batch.learned], atol=1e-5)
    assert torch.equal(batch.behaviour_logprobs, batch.old_logprobs)


def test_the_last_turn_is_verified(drawn: tuple[Loop, Batch]) -> None:
    loop, batch = drawn
    right = collector_of(loop).outcomes(batch)
    judged = [verify(batch.prompts[group].item, text) for group, text in zip(batch.group, batch.texts, strict=True)]
    assert right.tolist() == [int(verdict.outcome is Outcome.RIGHT) for verdict in judged]
    assert 0 < int(right.sum()) < len(right)


def test_a_conversation_ends_where_its_tokens_are_spent(folder: Path) -> None:
    loop = loop_of(folder, rollout={"name": "conversation", "max_tokens": 4})
    batch = loop.slots.rollout(loop.pool, collector_of(loop), context(group_size=8, max_new_tokens=LIMIT))
    written = batch.response_sum(batch.learned.long())
    assert int(written.max()) == 4
    spent = (written == 4) & (batch.group == 0)
    assert not bool(batch.finished[spent].any())
    turns = [[turn for author, turn, _ in runs(batch, row) if author == POLICY] for row in range(16)]
    assert any(len(found) < len(batch.prompts[int(batch.group[row])].gaps) + 1 for row, found in enumerate(turns))
    for row, found in enumerate(turns):
        assert runs(batch, row)[-1][0] == POLICY, "nothing follows the last turn"
        if len(found) <= len(batch.prompts[int(batch.group[row])].gaps):
            assert batch.texts[row] == ""


def test_another_policys_conversations_are_foreign(folder: Path) -> None:
    loop = loop_of(folder)
    batch = collector_of(loop).draw(loop.pool, 2, policy=loop.policies.start)
    assert bool(batch.external.all())
    assert set(batch.author[batch.learned].tolist()) == {FOREIGN}


METHODS = ["grpo", "dapo", "gspo", "ppo", "canon", "rorecomp", "reinforce++", "dhpo", "oreo", "verl-effective-rank"]


@pytest.mark.parametrize("method", METHODS)
def test_methods_learn_from_conversations(method: str, folder: Path) -> None:
    given = {"filters": []} if method == "dapo" else {}
    if method == "oreo":
        given = {"rollout": "conversation"}
    loop = loop_of(folder, method=method, **given)
    start = {name: value.clone() for name, value in loop.policies.trained.state().items()}
    history = [loop.step() for _ in range(3)]
    assert sum(row["num_updates"] for row in history)
    assert all(torch.isfinite(torch.tensor(list(row.values()))).all() for row in history)
    assert any(not torch.equal(value, start[name]) for name, value in loop.policies.trained.state().items())
    assert all(row["length_max"] <= 3 * LIMIT for row in history), "the user's tokens do not count"


def test_an_engine_in_another_process_draws_what_is_learned_from(folder: Path) -> None:
    """Contexts of later turns differ for every row; the engine's log-probabilities are the policy's."""
    policy = load_policy(folder)
    with engine_sampler(policy, NATIVE) as sampler:
        loop = loop_of(folder, policy=policy, sampler=sampler, group_size=8)
        history = [loop.step() for _ in range(2)]
    assert all(row["sampler_gap_max"] < 1e-4 for row in history)
    assert any(row["num_updates"] for row in history)


def test_conversations_drawn_ahead_are_saved_and_learned_from_later(folder: Path) -> None:
    given = {"rollout": {"name": "group_ahead", "max_staleness": 1}, "method": "dr-grpo"}
    straight, stopped, resumed = (loop_of(folder, **given) for _ in range(3))
    expected = [straight.step() for _ in range(4)]
    found = [stopped.step() for _ in range(2)]
    resumed.policies.trained.load_state(stopped.policies.trained.state())
    resumed.learner.trainer.load_state(stopped.learner.trainer.state())
    resumed.generator.set_state(stopped.generator.get_state())
    resumed.load_tensors(stopped.tensors())
    record = {"browse_samples": 16, "right_samples": 2048}
    resumed.state = state_again(stopped.state, **record)
    found += [resumed.step() for _ in range(2)]
    assert found == expected


def test_what_works_on_single_responses_says_so(folder: Path) -> None:
    loop = loop_of(folder)
    made = collector_of(loop)
    with pytest.raises(InputError, match=r"item p0 is a conversation of 3 turns"):
        made.responses(loop.pool[:1], ["x"])
    with pytest.raises(InputError, match="neither from prefixes nor through changed logits"):
        made.draw(loop.pool[:1], 1, prefixes=[[1]])
    scored = made.score(made.converse(loop.pool, 2))
    for slot, name in (("guidance", "critical_pairs"), ("guidance", "reformulate")):
        with pytest.raises(InputError, match=f"{name} works on single responses"):
            operator(slot, name)(scored, made, context())


def test_prompts_of_one_turn_are_drawn_as_by_rollout_group(folder: Path) -> None:
    policy = load_policy(folder)
    pool = [prompt for prompt in pool_of(policy) if not prompt.gaps]
    first, second = (collector_of(loop_of(folder)) for _ in range(2))
    one = operator("rollout", "conversation")(pool, first, context(group_size=4, max_new_tokens=LIMIT))
    two = operator("rollout", "group")(pool, second, context(group_size=4, max_new_tokens=LIMIT))
    assert torch.equal(one.tokens, two.tokens) and torch.equal(one.old_logprobs, two.old_logprobs)
    assert one.earlier_turns is None and isinstance(first._sampler, NativeSampler)
