"""Drawing whole conversations: contexts, verbatim turns, equal numbers for single turns."""

from __future__ import annotations

import pytest
import torch

from components.contract.errors import InputError
from components.contract.messages import Message
from components.modeling.generation.conversation import converse
from components.modeling.generation.sampler import NativeSampler
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.text.prompting import encode_prompts
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.turns import opening, scripts

TOKENIZER = train_tokenizer([], {})
OPEN = Message(role="assistant", content=None)
CONFIG = SamplingConfig(num_samples=3, max_new_tokens=4)


def user(text: str) -> Message:
    return Message(role="user", content=text)


TWO, THREE = [user("ab"), OPEN, user("c")], [user("x"), OPEN, user("y"), OPEN, user("z")]


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(5)


@pytest.fixture(scope="module")
def policy() -> Policy:
    sizes = ModelConfig(width=16, layers=1, heads=2, mlp_width=32, max_positions=64)
    return new_policy(sizes, tokenizer=TOKENIZER, seed=3)


def test_a_single_turn_is_drawn_as_before(policy: Policy) -> None:
    prompts = ["ab", "x"]
    (turn,) = converse(NativeSampler(policy), scripts(TOKENIZER, prompts, policy.ends), CONFIG, generator=seeded())
    plain = NativeSampler(policy).sample(encode_prompts(TOKENIZER, prompts), CONFIG, generator=seeded())
    assert torch.equal(turn.samples.tokens, plain.tokens)
    assert torch.equal(turn.samples.logprobs, plain.logprobs)


def test_later_turns_see_the_earlier_ones_verbatim(policy: Policy) -> None:
    found = scripts(TOKENIZER, [TWO, "ab", THREE], policy.ends)
    first, second, third = converse(NativeSampler(policy), found, CONFIG, generator=seeded())
    assert first.rows == list(range(9))
    assert second.rows == [0, 1, 2, 6, 7, 8]
    assert third.rows == [6, 7, 8]
    assert first.contexts[0] == opening(TOKENIZER, TWO)
    responses = first.samples.responses()
    end = TOKENIZER.eos_token_id
    ended = 0
    for row, context in zip(second.rows, second.contexts, strict=True):
        written = responses[row]
        rest = context[len(found[row // 3].opening) :]
        assert rest[: len(written)] == written
        missing = [] if written[-1] == end else [end]
        ended += not missing
        assert rest[len(written) :] == [*missing, *found[row // 3].gaps[0]]
    assert ended < len(second.rows), "no turn was cut: the test shows nothing"
    assert third.contexts[0][: len(second.contexts[3])] == second.contexts[3]


def test_log_probabilities_are_those_of_the_context(policy: Policy) -> None:
    sampler = NativeSampler(policy)
    for turn in converse(sampler, scripts(TOKENIZER, [TWO], policy.ends), CONFIG, generator=seeded()):
        scored = sampler.scored(turn.contexts, turn.samples, temperature=1.0)
        assert scored.policy_logprobs is not None
        torch.testing.assert_close(scored.policy_logprobs, turn.samples.logprobs, atol=1e-5, rtol=1e-4)


def test_equal_seeds_give_equal_conversations(policy: Policy) -> None:
    found = scripts(TOKENIZER, [TWO], policy.ends)
    one, two = (converse(NativeSampler(policy), found, CONFIG, generator=seeded())[1] for _ in range(2))
    assert torch.equal(one.samples.tokens, two.samples.tokens)


def test_a_conversation_that_might_not_fit_is_refused_before_anything_is_drawn(policy: Policy) -> None:
    long = CONFIG.model_copy(update={"max_new_tokens": 24})
    with pytest.raises(InputError, match=r"a conversation may have 80 tokens .* the model has 64 positions"):
        converse(NativeSampler(policy), scripts(TOKENIZER, [THREE], policy.ends), long, generator=seeded())
