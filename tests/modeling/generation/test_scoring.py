"""What the policy says of samples: against what generation itself recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from components.modeling.generation import scoring
from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.modeling.models.policy import Policy
from tests.modeling import decoder_models as models

PROMPTS = models.token_lists([5, 9, 30, 1], seed=1)


@pytest.fixture(scope="module", params=["llama-gqa", "gpt2"])
def policy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Policy:
    folder: Path = tmp_path_factory.mktemp("model")
    models.save(request.param, folder)
    return load_policy(folder)


@pytest.mark.parametrize("temperature, limit", [(1.0, 10_000), (0.6, 200), (0.6, 1)])
def test_scores_are_those_of_generation(
    policy: Policy, temperature: float, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "MAX_TOKENS", limit)
    config = SamplingConfig(num_samples=5, max_new_tokens=20, temperature=temperature, stop_token_ids=(5, 6, 7))
    samples = generate(policy, PROMPTS, config, generator=torch.Generator().manual_seed(0))
    assert len(set(samples.lengths.tolist())) > 3
    logprobs, entropies = scoring.score(policy, PROMPTS, samples, temperature=temperature)
    torch.testing.assert_close(logprobs, samples.logprobs, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(entropies, samples.entropies, atol=1e-5, rtol=1e-5)
