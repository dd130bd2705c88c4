"""Constrained decoding: every response is of the language, and what drew it is the policy renormalised over it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import ValidationError

from components.contract.errors import InputError
from components.modeling.generation.constraint import Constraint
from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from components.rl.batch.batch import RIGHT, Prompt
from components.rl.operators.rollouts.constrained import ConstrainedConfig
from components.rl.step.collector import Collector
from components.rl.step.ledger import PassRates
from components.rl.step.scoring import frozen_logprobs
from components.rl.step.settings import StepSettings
from components.tasks.domains.worlds.automata import Trie
from components.tasks.domains.worlds.plans import STEPS, read_plan
from components.tasks.item import Item
from components.tasks.verify import verify
from tests.rl.build import context, operator
from tests.rl.step.test_collector import policy  # noqa: F401  (a fixture)

WANTED = ("word", "list", "number")
CASES = [["ab", "ba"], ["cab", "bac"]]
TEXTS = ["ab", "abc", "b"]


def pool(policy: Policy) -> list[Prompt]:  # noqa: F811
    made = []
    for wanted in WANTED:
        data = {"wanted": wanted, "cases": CASES}
        item = Item(id=wanted, domain="A", prompt=f"to {wanted}", answer="rev", verifier="plan", data=data)
        made.append(Prompt(item, tuple(policy.tokenizer.encode(item.prompt, add_special_tokens=False))))  # type: ignore[union-attr]
    return made


def collector(policy: Policy, limit: int = 40) -> Collector:  # noqa: F811
    settings = StepSettings(prompts_per_step=3, group_size=16, max_new_tokens=limit, temperature=1.0)
    return Collector(
        policy,
        settings,
        generator=torch.Generator().manual_seed(0),
        ledger=PassRates(),
        reward=lambda batch: (batch.outcomes == RIGHT).float(),
        max_tokens=999,
    )


def drawn(policy: Policy, limit: int = 40, **config: Any) -> Any:  # noqa: F811
    made = collector(policy, limit)
    return operator("rollout", "constrained", **config)(pool(policy), made, context(group_size=16, collector=made))


def test_all_plans_execute_and_end_in_the_type_wanted(policy: Policy) -> None:  # noqa: F811
    plain = collector(policy).draw(pool(policy), 16)
    assert any("not executable" in verify(plain.prompts[0].item, text).detail for text in plain.texts)
    batch = drawn(policy, max_steps=3)
    assert bool(batch.finished.all()) and len(set(batch.texts)) > 10
    assert any(" " in text for text in batch.texts)
    for group, text in zip(batch.group.tolist(), batch.texts, strict=True):
        names = read_plan(text.removeprefix("<answer>"))
        assert text.startswith("<answer>") and len(names) <= 3
        assert STEPS[names[-1]].gives == WANTED[group]
        assert "not executable" not in verify(batch.prompts[group].item, text).detail


def test_what_drew_a_token_is_the_policy_over_the_tokens_of_the_language(policy: Policy) -> None:  # noqa: F811
    batch = drawn(policy, 8, language="texts", texts=TEXTS, opening="")
    assert set(batch.texts) == set(TEXTS)
    assert torch.allclose(batch.old_logprobs, frozen_logprobs(policy, batch, temperature=1.0, max_tokens=99), atol=1e-5)
    packed = Packed.from_groups([prompt.tokens for prompt in batch.prompts], batch.responses())
    with torch.no_grad():
        logits = policy.target_logits(packed)
    place = 0
    (end,) = policy.eos_ids
    ids = {letter: policy.tokenizer.convert_tokens_to_ids(letter) for letter in "abc"}  # type: ignore[union-attr]
    following = {"": "ab", "a": "b", "ab": "c.", "abc": ".", "b": "."}
    for text in batch.texts:
        for read in (text[:length] for length in range(len(text) + 1)):
            allowed = [end if one == "." else ids[one] for one in following[read]]
            chosen = allowed[following[read].index((text + ".")[len(read)])]
            expected = logits[place, chosen] - logits[place, allowed].logsumexp(0)
            assert batch.behaviour_logprobs[place] == pytest.approx(float(expected), abs=1e-5)
            place += 1
    assert place == batch.num_tokens


def test_rows_in_smaller_chunks_are_the_same(policy: Policy) -> None:  # noqa: F811
    assert policy.tokenizer is not None
    pieces = ["" if token in policy.eos_ids else policy.tokenizer.decode([token]) for token in range(policy.vocab_size)]
    prompts, found = [prompt.tokens for prompt in pool(policy)], []
    for most in (10_000, 40):
        constraint = Constraint([Trie(("ab", "abcabc", "c"))] * 3, pieces, policy.eos_ids)
        config = SamplingConfig(num_samples=8, max_new_tokens=10, max_batch_tokens=most)
        generator = torch.Generator().manual_seed(1)
        found.append(generate(policy, prompts, config, generator=generator, processor=constraint))
    assert torch.equal(found[0].tokens, found[1].tokens) and bool(found[0].finished.all())


def test_what_the_tokenizer_cannot_write_is_told_in_a_line(policy: Policy) -> None:  # noqa: F811
    with pytest.raises(InputError, match="no token of this tokenizer goes on from 'a'"):
        drawn(policy, language="texts", texts=["a\u00e9"], opening="")


def test_items_and_settings_that_do_not_fit_are_refused(policy: Policy) -> None:  # noqa: F811
    made = collector(policy)
    item = Item(id="x", domain="A", prompt="p", answer="x", verifier="exact")
    with pytest.raises(InputError, match="item x is not of source pipelines"):
        operator("rollout", "constrained")([Prompt(item, (1, 2))], made, context(group_size=4, collector=made))
    with pytest.raises(ValidationError, match="lists the responses of"):
        ConstrainedConfig(language="texts")
    with pytest.raises(ValidationError, match="lists the responses of"):
        ConstrainedConfig(texts=("a",))
