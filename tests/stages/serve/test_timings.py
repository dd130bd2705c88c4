"""Latency and throughput, by hand and against brute force; how each server is started."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.job import Resources
from components.measure.intervals import Bootstrap, Interval
from components.serve.server.commands import Serving, command_for
from components.serve.timings import busy_seconds, timings
from tests.modeling.chat_models import LAYOUTS, save_model

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda span: (span[0], span[0] + span[1])))


@given(SPANS)
def test_busy_seconds_by_counting_the_ticks_in_which_any_span_lasts(spans: list[tuple[int, int]]) -> None:
    assert busy_seconds(spans) == len({tick for begin, end in spans for tick in range(begin, end)})


def test_timings_by_hand() -> None:
    """Two attempts, an hour apart: 1 s with two requests at a time, then 2 s; 40 tokens in 3 s."""
    rows = [(0.0, 1.0, 10), (0.5, 0.5, 10), (3600.0, 2.0, 20)]
    answers = [{"began": began, "seconds": seconds, "tokens": tokens} for began, seconds, tokens in rows]
    found = timings(answers, Bootstrap(resamples=200))
    assert found["tokens_per_second"] == pytest.approx(40 / 3) and found["requests_per_second"] == pytest.approx(1.0)
    median = found["latency_p50_seconds"]
    assert isinstance(median, Interval) and median.value == 1.0 and median.n == 3
    assert 0.5 <= median.low <= median.value <= median.high <= 2.0
    late = found["latency_p95_seconds"]
    assert isinstance(late, Interval) and late.value == pytest.approx(np.quantile([1.0, 0.5, 2.0], 0.95))


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    save_model(LAYOUTS["qwen2.5-base"], tmp_path)
    return Serving(tmp_path, "posttrain-1", "secret-key", "bfloat16", 300, 16)


def test_keys_are_on_no_command_line_and_servers_bind_loopback(serving: Serving) -> None:
    for resources in (Resources(), Resources(sampler="vllm"), Resources(sampler="vllm", gpus=1)):
        made = command_for(serving, 4321, resources, "cpu", {"PATH": "/bin", "RANK": "3"})
        assert not any("secret-key" in word for word in made.words) and "secret-key" in made.environment.values()
        assert made.words[made.words.index("--host") + 1] == "127.0.0.1"
        assert made.words[made.words.index("--port") + 1] == "4321" and "RANK" not in made.environment


def test_vllm_is_started_as_the_pool_says(serving: Serving) -> None:
    environment = {"POSTTRAIN_VLLM_PYTHON": "/opt/vllm/bin/python", "PATH": "/bin"}
    made = command_for(serving, 1, Resources(sampler="vllm", gpus=2, threads=3), "cuda", environment)
    words = made.words
    assert words[:3] == ["/opt/vllm/bin/python", "-m", "vllm.entrypoints.openai.api_server"]
    value = {name: words[words.index(name) + 1] for name in words if name.startswith("--")}
    assert (value["--max-model-len"], value["--dtype"], value["--max-num-seqs"]) == ("300", "bfloat16", "16")
    assert (value["--logprobs-mode"], value["--generation-config"]) == ("processed_logprobs", "vllm")
    assert int(value["--tensor-parallel-size"]) in (1, 2) and float(value["--gpu-memory-utilization"]) > 0.5
    assert made.environment["VLLM_API_KEY"] == "secret-key" and made.environment["OMP_NUM_THREADS"] == "3"
    assert "VLLM_ENABLE_V1_MULTIPROCESSING" not in made.environment
