"""Constrained decoding by an engine: the language that it is told, and what comes back, against the native sampler."""

from __future__ import annotations

import string
from collections import deque
from collections.abc import Sequence
from itertools import product
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.modeling.generation.constraint import Automaton, Constraint
from components.modeling.generation.engine.engine_sampler import EngineSampler
from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.text.prompting import decode_responses
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.tasks.domains.worlds.automata import Plans, Trie
from components.tasks.domains.worlds.plans import STEPS, Type
from tests.modeling.generation.constrained_engine import texts_of
from tests.modeling.generation.engines import HERE, engine_sampler

ALPHABET = sorted({*"<answer> ", *"".join(STEPS)})
CONFIG = SamplingConfig(num_samples=40, max_new_tokens=24)


def written(automaton: Automaton) -> list[str]:
    """Return all texts of an automaton, walked character by character."""
    found, ahead = [], deque([("", automaton.start)])
    while ahead:
        text, state = ahead.popleft()
        if automaton.may_end(state):
            found.append(text)
        steps = ((text + one, automaton.step(state, one)) for one in ALPHABET)
        ahead.extend((longer, after) for longer, after in steps if after is not None)
    return sorted(found)


@pytest.mark.parametrize("wanted, most", list(product(get_args(Type), (1, 2, 3))))
def test_the_grammar_of_plans_writes_what_the_automaton_reads(wanted: Type, most: int) -> None:
    automaton = Plans(wanted, most, "<answer>")
    assert texts_of(automaton.structured_outputs()) == written(automaton)


def test_a_grammar_by_hand() -> None:
    """From a word to a number in one or two steps: only what counts it, behind what keeps it a word."""
    keeps = [name for name, step in STEPS.items() if (step.takes, step.gives) == ("word", "word")]
    counts = [name for name, step in STEPS.items() if (step.takes, step.gives) == ("word", "number")]
    through = [
        f"{first} {second}"
        for first, second in product(STEPS, STEPS)
        if (STEPS[first].takes, STEPS[first].gives, STEPS[second].takes, STEPS[second].gives)
        == ("word", STEPS[second].takes, STEPS[first].gives, "number")
    ]
    assert counts and keeps and set(through) >= {f"{first} {last}" for first in keeps for last in counts}
    assert texts_of(Plans("number", 2).structured_outputs()) == sorted([*counts, *through])


def test_texts_are_choices() -> None:
    assert Trie(("true", 'a "b"\n\\')).structured_outputs() == {"choice": ["true", 'a "b"\n\\']}


def test_each_language_is_told_once_and_each_prompt_has_its_own() -> None:
    one, two = Trie(("a",)), Trie(("b",))
    found, places = Constraint([one, two, Trie(("a",))], [], ()).structured_outputs()
    assert found == [{"choice": ["a"]}, {"choice": ["b"]}] and places == [0, 1, 0]
    part, own = Constraint([one, two, one], [], ()).of_prompts(1, 3).structured_outputs()
    assert part == [{"choice": ["b"]}, {"choice": ["a"]}] and own == [0, 1]


@pytest.fixture(scope="module")
def policy() -> Policy:
    tokenizer = train_tokenizer([string.ascii_letters], {}, TokenizerConfig(phrases=False))
    made = new_policy(ModelConfig(width=16, layers=1, heads=2, mlp_width=24), tokenizer=tokenizer, seed=0)
    with torch.no_grad():
        made.module.embedding.mul_(20)  # far from uniform
    return made


def constraint(policy: Policy, languages: Sequence[Any]) -> Constraint:
    tokenizer = policy.tokenizer
    assert tokenizer is not None
    pieces = ["" if token in policy.eos_ids else tokenizer.decode([token]) for token in range(policy.vocab_size)]
    return Constraint(languages, pieces, policy.eos_ids)


def engine(policy: Policy, name: str = "ConstrainedEngine", **options: Any) -> EngineSampler:
    return engine_sampler(policy, f"{HERE}.constrained_engine:{name}", **{"structured": True, **options})


LANGUAGES = [Trie(("ab", "abc", "b")), Plans("number", 2, "<answer>"), Trie(("ab", "abc", "b"))]
PROMPTS = [[5, 6], [7], [8, 9]]


def test_an_engine_draws_of_each_prompts_language(policy: Policy) -> None:
    with engine(policy) as sampler:
        found = sampler.sample(
            PROMPTS, CONFIG, generator=torch.Generator().manual_seed(0), processor=constraint(policy, LANGUAGES)
        )
    assert policy.tokenizer is not None and bool(found.finished.all())
    texts = decode_responses(policy.tokenizer, found.responses(), policy.ends)
    for place, language in enumerate(LANGUAGES):
        own = set(texts[place * 40 : (place + 1) * 40])
        assert len(own) > 1 and own <= set(written(language))
    # The engine's are of the constrained draw, the policy's are of the policy alone: those of the same tokens differ.
    assert found.policy_logprobs is not None
    assert bool((found.logprobs >= found.policy_logprobs - 1e-5).all())
    assert float((found.logprobs - found.policy_logprobs).max()) > 0.5
    native = generate(
        policy,
        PROMPTS[:1],
        SamplingConfig(num_samples=4000, max_new_tokens=24),
        generator=torch.Generator().manual_seed(1),
        processor=constraint(policy, LANGUAGES[:1]),
    )
    first = {tuple(row): sum(row_logs).item() for row, row_logs in _rows(native, slice(0, 4000))}
    for row, row_logs in _rows(found, slice(0, 40)):
        assert sum(row_logs).item() == pytest.approx(first[tuple(row)], abs=1e-4)


def _rows(samples: Any, rows: slice) -> list[tuple[list[int], torch.Tensor]]:
    lengths = samples.lengths.tolist()
    return [(samples.responses()[at], samples.logprobs[at, : lengths[at]]) for at in range(len(lengths))[rows]]


def test_an_engine_that_leaves_the_language_is_told_in_a_line(policy: Policy) -> None:
    with engine(policy, "UnboundEngine") as sampler, pytest.raises(InputError, match=r"wrote .* not of the language"):
        sampler.sample(
            PROMPTS, CONFIG, generator=torch.Generator().manual_seed(0), processor=constraint(policy, LANGUAGES)
        )


def test_what_an_engine_cannot_do_is_refused(policy: Policy) -> None:
    languages, seeded = constraint(policy, LANGUAGES), torch.Generator().manual_seed(0)
    with engine(policy) as sampler:
        with pytest.raises(InputError, match="none behind a prefix"):
            sampler.sample(PROMPTS, CONFIG, generator=seeded, processor=languages, prefixes=[[5]] * 120)
        with pytest.raises(InputError, match="logits cannot be changed on the way in another process"):
            sampler.sample(PROMPTS, CONFIG, generator=seeded, processor=lambda logits, step: logits)
    with engine(policy, structured=False) as sampler, pytest.raises(InputError, match="started without a tokenizer"):
        sampler.sample(PROMPTS, CONFIG, generator=seeded, processor=languages)


@settings(max_examples=60)
@given(st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=5, unique=True), st.data())
def test_a_response_passes_the_check_exactly_if_it_is_of_the_language(texts: list[str], data: st.DataObject) -> None:
    from components.modeling.generation.samples import Samples

    pieces, end = ["a", "b", "ab", ""], 3
    row = data.draw(st.lists(st.integers(0, 2), max_size=5))
    ended = data.draw(st.booleans()) or not row
    tokens = [*row, end] if ended else row
    width = len(tokens)
    zero = torch.zeros(1, width)
    samples = Samples(
        tokens=torch.tensor([tokens]),
        lengths=torch.tensor([width]),
        logprobs=zero,
        entropies=zero,
        prompt_index=torch.zeros(1, dtype=torch.long),
        finished=torch.tensor([ended]),
        sampled=zero.bool(),
        num_samples=1,
    )
    text = "".join(pieces[token] for token in row)
    right = text in texts if ended else any(known.startswith(text) for known in texts)
    checked = Constraint([Trie(tuple(texts))], pieces, [end])
    if right:
        checked.check(samples)
    else:
        with pytest.raises(InputError, match="not of the language"):
            checked.check(samples)
