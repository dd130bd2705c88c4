"""An engine that gets nothing done is killed and replaced once; then the stage fails in one clear line."""

from __future__ import annotations

import os
import re
import select
import signal
from pathlib import Path

import pytest
import torch

from components.contract.errors import InputError
from components.modeling.generation.engine.engine_process import EngineFailed, EngineStuck
from components.modeling.generation.engine.patience import Signs, Watch, patience
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.modeling.models.policy import Policy
from tests.modeling import decoder_models as models
from tests.modeling.generation.engines import NATIVE, PLAIN, engine_process, engine_sampler

HERE = "tests.modeling.generation.stuck_engines"
PROMPTS = models.token_lists([5, 9], seed=1)
ONE = PROMPTS[:1]
SAMPLING = SamplingConfig(num_samples=6, max_new_tokens=12)


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    models.save("llama", tmp_path / "model")
    return load_policy(tmp_path / "model")


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def test_a_stopped_engine_is_replaced_and_draws_the_same(
    policy: Policy, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POSTTRAIN_ENGINE_SECONDS", "12")
    with engine_sampler(policy, NATIVE) as sampler:
        wanted = sampler.sample(PROMPTS, SAMPLING, generator=seeded())
        stopped = sampler.pid
        assert stopped is not None
        watched = os.pidfd_open(stopped)
        os.kill(stopped, signal.SIGSTOP)
        generator = seeded()
        found = sampler.sample(PROMPTS, SAMPLING, generator=generator)
        assert torch.equal(found.tokens, wanted.tokens) and torch.equal(found.logprobs, wanted.logprobs)
        assert sampler.pid != stopped and select.select([watched], [], [], 30)[0]
        expected = seeded()
        torch.randint(2**62, (len(PROMPTS),), generator=expected)
        assert torch.equal(generator.get_state(), expected.get_state())  # drawn from once, so a resumed run agrees
    said = capfd.readouterr().err
    assert "showed no sign of life for 12 s while it drew 12 responses, and was killed (" in said
    assert "another engine takes its place" in said


def test_one_that_is_stopped_before_it_takes_weights_is_replaced(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTTRAIN_ENGINE_SECONDS", "1")
    with engine_sampler(policy, PLAIN) as sampler:
        sampler.load_weights()
        stopped = sampler.pid
        assert stopped is not None
        os.kill(stopped, signal.SIGSTOP)
        sampler.load_weights()
        assert sampler.pid != stopped
        stopped = sampler.pid
        assert stopped is not None
        os.kill(stopped, signal.SIGSTOP)
        sampler.rest()
        assert sampler.pid is None  # nothing waits for memory of an engine that is gone
        assert sampler.sample(ONE, SAMPLING, generator=seeded()).responses() == [[5]] * 6


def test_two_in_a_row_fail_the_stage_and_leave_no_worker_behind(
    policy: Policy, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POSTTRAIN_ENGINE_SECONDS", "1")
    with engine_sampler(policy, f"{HERE}:WaitingEngine") as sampler:
        with pytest.raises(EngineFailed) as caught:
            sampler.sample(ONE, SAMPLING, generator=seeded())
        assert sampler.pid is None
    said = str(caught.value)
    assert said.startswith("a second engine got stuck, too; try `backend: {sampler: native}`: the engine showed no")
    workers = re.findall(r"worker (\d+)", said + capfd.readouterr().err)
    assert len(set(workers)) == 2
    assert not [pid for pid in workers if _lives(int(pid))]


def test_one_that_draws_ahead_is_named_and_not_replaced(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainer has changed the weights since; another engine would draw with these."""
    monkeypatch.setenv("POSTTRAIN_ENGINE_SECONDS", "1")
    with engine_sampler(policy, f"{HERE}:WaitingEngine") as sampler:
        drawing = sampler.begin(ONE, SAMPLING, generator=seeded())
        with pytest.raises(EngineStuck, match="showed no sign of life for 1 s while it drew 6 responses"):
            drawing.samples()


def test_cpu_time_alone_is_no_work_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTTRAIN_ENGINE_SECONDS", "1")
    engine = engine_process(f"{HERE}:BusyEngine")
    engine.call("start", "while it started", folder="", options={})
    with pytest.raises(EngineStuck, match="was busy for 3 s without getting anything done while it drew"):
        engine.call("sample", "while it drew")
        engine.call("collect", "while it drew")
    engine.close()


def test_a_slow_engine_is_waited_for(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTTRAIN_ENGINE_SECONDS", "1")
    with engine_sampler(policy, f"{HERE}:SlowEngine") as sampler:
        sampler.load_weights()
        pid = sampler.pid
        assert sampler.sample(ONE, SAMPLING, generator=seeded()).responses() == [[5]] * 6
        assert sampler.pid == pid


def test_time_in_which_the_stage_itself_did_not_run_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 10_000.0, 10_001.0, 10_002.0])
    monkeypatch.setattr("components.modeling.generation.engine.patience.time.monotonic", lambda: next(clock))
    watch = Watch(lambda: Signs((1,), 5.0), 60.0)
    assert watch.every == 1.0
    assert [watch.complaint() for _ in range(3)] == [None] * 3


@pytest.mark.parametrize("given", ["0", "-3", "soon", "inf", "nan"])
def test_a_patience_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(InputError, match=r"POSTTRAIN_ENGINE_SECONDS is .*; set a number of seconds above 0"):
        patience({"POSTTRAIN_ENGINE_SECONDS": given})


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
