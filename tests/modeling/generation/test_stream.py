"""A response that is streamed is the one that is generated at once."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
import torch

from components.contract.errors import InputError
from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.generation.stream import stream
from components.modeling.loading.load import Backend, load_policy
from components.modeling.models.policy import Policy
from tests.modeling.decoder_models import build


@pytest.fixture(scope="module", params=["native", "transformers"])
def policy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Policy:
    folder = tmp_path_factory.mktemp(string.ascii_letters[:3])
    build("llama").save_pretrained(folder)
    backend: Backend = request.param
    return load_policy(Path(folder), backend=backend)


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_streamed_tokens_are_the_generated_ones(policy: Policy, temperature: float) -> None:
    prompt = [5, 6, 7]
    for seed in range(8):
        config = SamplingConfig(max_new_tokens=12, temperature=temperature)
        whole = generate(policy, [prompt], config, generator=torch.Generator().manual_seed(seed)).responses()[0]
        assert list(stream(policy, prompt, config, generator=torch.Generator().manual_seed(seed))) == list(whole)


def test_what_does_not_fit_is_refused(policy: Policy) -> None:
    with pytest.raises(InputError, match="do not fit the model's 128 positions"):
        list(stream(policy, [5], SamplingConfig(max_new_tokens=500), generator=torch.Generator()))
