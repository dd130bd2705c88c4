"""Engine samplers, on the native sampler in a process of its own: weights, samples, and engines that end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from components.contract.errors import InputError
from components.contract.job import Resources
from components.modeling.generation.choose import open_sampler
from components.modeling.generation.engine.engine_process import EngineFailed
from components.modeling.generation.engine.engine_sampler import EngineSampler
from components.modeling.generation.generate import Samples, generate
from components.modeling.generation.sampler import NativeSampler
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.modeling.models.policy import Policy
from tests.modeling import decoder_models as models
from tests.modeling.generation.engines import FORGETFUL, PACKAGE, PLAIN, engine_process, engine_sampler

PROMPTS = models.token_lists([5, 9, 30, 1], seed=1)
SAMPLING = SamplingConfig(num_samples=6, max_new_tokens=12)


def _seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _load(tmp_path: Path, kind: str = "llama") -> Policy:
    models.save(kind, tmp_path / kind)
    return load_policy(tmp_path / kind)


def _perturb(policy: Policy, seed: int) -> None:
    with torch.no_grad():
        for _, weight in policy.trainable():
            weight.add_(0.1 * torch.randn(weight.shape, generator=_seeded(seed)))


def _gap(samples: Samples) -> float:
    assert samples.policy_logprobs is not None
    return float((samples.logprobs - samples.policy_logprobs).abs().max())


@pytest.fixture(scope="module")
def sampler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineSampler]:
    with engine_sampler(_load(tmp_path_factory.mktemp("model"))) as made:
        yield made


@pytest.fixture
def policy(sampler: EngineSampler) -> Policy:
    sampler.load_weights()
    return sampler.policy


def test_greedy_is_that_of_the_policy(sampler: EngineSampler, policy: Policy) -> None:
    config = SamplingConfig(num_samples=2, max_new_tokens=25, temperature=0.0)
    ours = sampler.sample(PROMPTS, config, generator=_seeded())
    theirs = generate(policy, PROMPTS, config, generator=_seeded())
    assert ours.responses() == theirs.responses()
    assert torch.equal(ours.finished, theirs.finished) and torch.equal(ours.sampled, theirs.sampled)
    torch.testing.assert_close(ours.logprobs, theirs.logprobs, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.entropies, theirs.entropies, atol=1e-5, rtol=1e-5)


def test_samples_follow_the_generator(sampler: EngineSampler, policy: Policy) -> None:
    first, again = (sampler.sample(PROMPTS, SAMPLING, generator=_seeded(1)) for _ in range(2))
    assert torch.equal(first.tokens, again.tokens) and torch.equal(first.logprobs, again.logprobs)
    generator = _seeded(1)
    sampler.sample(PROMPTS, SAMPLING, generator=generator)
    assert not torch.equal(first.tokens, sampler.sample(PROMPTS, SAMPLING, generator=generator).tokens)
    assert len({tuple(row) for row in first.responses()}) > 12


def test_stop_tokens_and_temperature_reach_the_engine(sampler: EngineSampler, policy: Policy) -> None:
    config = SamplingConfig(num_samples=8, max_new_tokens=12, temperature=0.5, stop_token_ids=(11, 12))
    samples = sampler.sample(PROMPTS, config, generator=_seeded())
    for row, finished in zip(samples.responses(), samples.finished.tolist(), strict=True):
        assert not {models.EOS, 11, 12}.intersection(row[:-1])
        assert finished == (row[-1] in (models.EOS, 11, 12))
    assert _gap(samples) < 1e-5  # both at temperature 0.5


def test_prefixes_open_responses_and_are_marked(sampler: EngineSampler, policy: Policy) -> None:
    prefixes = [[7, 8, 9], [], [6], [5, models.EOS, 6]]
    config = SamplingConfig(num_samples=2, max_new_tokens=10, temperature=0.0)
    ours = sampler.sample(PROMPTS[:2], config, generator=_seeded(), prefixes=prefixes)
    theirs = generate(policy, PROMPTS[:2], config, generator=_seeded(), prefixes=prefixes)
    assert ours.responses() == theirs.responses()
    assert torch.equal(ours.sampled, theirs.sampled) and torch.equal(ours.finished, theirs.finished)
    torch.testing.assert_close(ours.logprobs, theirs.logprobs, atol=1e-5, rtol=1e-5)


def test_only_prefixes_need_no_engine(sampler: EngineSampler, policy: Policy) -> None:
    config = SamplingConfig(max_new_tokens=2)
    samples = sampler.sample([[5], [6]], config, generator=_seeded(), prefixes=[[7, 8], [models.EOS]])
    assert samples.responses() == [[7, 8], [models.EOS]] and not bool(samples.sampled.any())


def test_weights_are_those_of_the_last_load_and_never_others(sampler: EngineSampler, policy: Policy) -> None:
    """Would fail if an update were skipped: without one, the samples are visibly of the old weights."""
    pid = sampler.pid
    for seed in range(3):
        _perturb(policy, seed)
        assert _gap(sampler.sample(PROMPTS, SAMPLING, generator=_seeded())) > 0.01
        sampler.load_weights()
        assert _gap(sampler.sample(PROMPTS, SAMPLING, generator=_seeded())) < 1e-5
    assert sampler.pid == pid


def test_a_skipped_update_shows(tmp_path: Path) -> None:
    with engine_sampler(_load(tmp_path), FORGETFUL) as sampler:
        assert _gap(sampler.sample(PROMPTS, SAMPLING, generator=_seeded())) < 1e-5
        _perturb(sampler.policy, 0)
        sampler.load_weights()
        assert _gap(sampler.sample(PROMPTS, SAMPLING, generator=_seeded())) > 0.01


def test_another_architecture_starts_the_engine_anew(sampler: EngineSampler, policy: Policy, tmp_path: Path) -> None:
    pid = sampler.pid
    sampler.load_weights(_load(tmp_path, "llama-gqa"))
    assert sampler.pid != pid
    assert _gap(sampler.sample(PROMPTS, SAMPLING, generator=_seeded())) < 1e-5
    sampler.load_weights(policy)


def test_a_killed_engine_is_named_with_its_last_lines(tmp_path: Path) -> None:
    with engine_sampler(_load(tmp_path), PLAIN) as sampler:
        sampler.load_weights()
        assert sampler.pid is not None
        os.kill(sampler.pid, signal.SIGKILL)
        with pytest.raises(EngineFailed) as caught:
            sampler.sample(PROMPTS, SAMPLING, generator=_seeded())
    message = str(caught.value)
    assert message.startswith("the engine was killed by SIGKILL (out of memory?) while it drew 24 responses")
    assert message.endswith("the engine has started")


def test_errors_of_the_engine_are_told_and_it_goes_on(tmp_path: Path) -> None:
    with engine_sampler(_load(tmp_path), PLAIN) as sampler:
        with pytest.raises(EngineFailed, match="while it drew 12 responses: MemoryError: no room for 2 prompts"):
            sampler.sample(PROMPTS[:2], SAMPLING, generator=_seeded())
        assert sampler.sample(PROMPTS[:1], SAMPLING, generator=_seeded()).responses() == [[5]] * 6
        with pytest.raises(EngineFailed, match="23 responses where 24 were wanted"):
            sampler.sample(PROMPTS, SAMPLING, generator=_seeded())
        with pytest.raises(EngineFailed, match=r"ended with exit code 7 while it drew 18 responses(?s:.*)about to end"):
            sampler.sample(PROMPTS[:3], SAMPLING, generator=_seeded())


def test_environments_that_cannot_run_the_engine_are_named(tmp_path: Path) -> None:
    with (
        engine_sampler(_load(tmp_path), PACKAGE) as sampler,
        pytest.raises(InputError, match=r"no package 'a_package_that_nobody_has'.*POSTTRAIN_VLLM_PYTHON"),
    ):
        sampler.load_weights()
    with pytest.raises(InputError, match=r"'/no/such/python' cannot be started: No such file"):
        engine_process(PLAIN, python="/no/such/python")


def test_what_cannot_be_drawn_is_refused(sampler: EngineSampler, policy: Policy, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sampler: native"):
        sampler.sample(PROMPTS, SAMPLING, generator=_seeded(), processor=lambda logits, step: logits)
    with pytest.raises(InputError, match="do not fit the model's 128 positions"):
        sampler.sample(PROMPTS, SamplingConfig(max_new_tokens=99), generator=_seeded())
    with pytest.raises(InputError, match=r"temperature 0, or 0\.01 and more, not at 0\.005"):
        sampler.sample(PROMPTS, SamplingConfig(temperature=0.005), generator=_seeded())
    with engine_sampler(policy, PLAIN, room=40) as small, pytest.raises(InputError, match=r"42 tokens .* room for 40"):
        small.sample(PROMPTS, SAMPLING, generator=_seeded())


def test_closing_ends_the_engine(tmp_path: Path) -> None:
    sampler = engine_sampler(_load(tmp_path), PLAIN)
    sampler.load_weights()
    assert sampler.pid is not None
    watched = os.pidfd_open(sampler.pid)
    sampler.close()
    assert _has_ended(watched)


KILLED_STAGE = """
import signal, sys, os
from tests.modeling.generation.engines import PLAIN, engine_process
engine = engine_process(PLAIN)
engine.call("rest", "")
print(engine.pid, flush=True)
signal.pause()
"""


def test_the_engine_ends_with_a_killed_stage() -> None:
    stage = subprocess.Popen([sys.executable, "-c", KILLED_STAGE], stdout=subprocess.PIPE, text=True)
    assert stage.stdout is not None
    watched = os.pidfd_open(int(stage.stdout.readline()))
    assert not _has_ended(watched, seconds=0)
    stage.kill()
    stage.wait()
    stage.stdout.close()
    assert _has_ended(watched)


def _has_ended(watched: int, *, seconds: float = 30.0) -> bool:
    """Whether the process of a pidfd ends within a time."""
    return bool(select.select([watched], [], [], seconds)[0])


def test_the_pool_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = _load(tmp_path)
    native = open_sampler(policy, Resources())
    assert isinstance(native, NativeSampler)
    samples = native.sample(PROMPTS, SAMPLING, generator=_seeded(4))
    plain = generate(policy, PROMPTS, SAMPLING, generator=_seeded(4))
    assert torch.equal(samples.tokens, plain.tokens) and torch.equal(samples.logprobs, plain.logprobs)
    monkeypatch.setenv("POSTTRAIN_VLLM_PYTHON", "/no/such/python")
    with (
        open_sampler(policy, Resources(sampler="vllm")) as chosen,
        pytest.raises(InputError, match="/no/such/python"),
    ):
        chosen.load_weights()
