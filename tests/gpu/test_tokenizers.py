"""Tokenizers and chat templates of six families: SFT, sampling and verifying on the device judge answers right."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.measure.sampling import sample_and_verify
from components.modeling.generation.sampler import NativeSampler
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.modeling.supervised.examples import examples_from_rows
from components.modeling.supervised.trainer import fit
from tests.gpu.device import DEVICE
from tests.modeling.chat_models import ANSWERS, LAYOUTS, PROMPTS, save_model
from tests.stages.test_chat_layouts import CONFIG, ITEMS
from tests.stages.toy_models import Silent

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", list(LAYOUTS))
def test_what_it_learned_is_judged_right(name: str, tmp_path: Path) -> None:
    save_model(LAYOUTS[name], tmp_path)
    policy = load_policy(tmp_path, device=DEVICE)
    rows = [{"prompt": prompt, "response": answer} for prompt, answer in zip(PROMPTS, ANSWERS, strict=True)]
    fit(policy, examples_from_rows(policy.tokenizer, rows, ends=policy.ends), CONFIG, Silent(), seed=0)
    sampling = SamplingConfig(num_samples=4, max_new_tokens=24)
    outcomes = sample_and_verify(NativeSampler(policy), ITEMS, sampling, seed=0)
    assert sum(outcome.num_right for outcome in outcomes) >= 0.9 * 4 * len(ITEMS)
    assert all(all(outcome.finished) for outcome in outcomes)
    texts = [text for outcome in outcomes for text in outcome.responses]
    assert not any(mark in text for text in texts for mark in ("<|im_end", "<|eot", "turn>", "</s>"))
