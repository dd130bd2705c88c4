"""What vLLM is told of where responses end, without vLLM: its two classes are recorded."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from components.modeling.generation.engine.engine_process import EngineProcess
from components.modeling.generation.engine.engine_sampler import EngineSampler
from components.modeling.generation.engine.frames import Arrays, Header
from components.modeling.generation.engine.vllm_engine import VllmEngine
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.modeling.text.prompting import decode_responses, encode_prompts
from tests.modeling.chat_models import LAYOUTS, PROMPTS, save_model


@dataclass
class RecordedLLM:
    """Answers every request with the text 5 and the first token that it was told to stop at."""

    five: list[int]
    seen: list[Any] = field(default_factory=list)

    def enqueue(self, prompts: list[Any], settings: list[Any], **_: Any) -> list[str]:
        first = len(self.seen)
        self.seen += settings
        return [f"{number}-internal" for number in range(first, len(self.seen))]

    @property
    def llm_engine(self) -> Any:
        """Every step finishes all requests, the last one first."""
        found = [
            SimpleNamespace(request_id=str(number), finished=True, outputs=[self._output(one, n) for n in range(one.n)])
            for number, one in enumerate(self.seen)
        ]
        return SimpleNamespace(step=lambda: found[::-1])

    def _output(self, settings: Any, index: int) -> Any:
        tokens = [*self.five, settings.stop_token_ids[index]]
        flat = SimpleNamespace(logprobs=[-0.5] * len(tokens), start_indices=range(len(tokens)), token_ids=tokens)
        return SimpleNamespace(index=index, token_ids=tokens, logprobs=flat, finish_reason="stop")


class InProcess(EngineProcess):
    """An engine without a process; calls go straight to it."""

    def __init__(self, engine: VllmEngine) -> None:
        self._engine = engine

    def send(self, method: str, doing: str, arrays: Arrays | None = None, **settings: Any) -> None:
        self._reply: tuple[Header, Arrays] = ({}, {})
        if method == "sample":
            self._engine.submit(settings, arrays or {})
        else:
            self._reply = ({}, self._engine.advance() or {})

    def reply(self, doing: str) -> tuple[Header, Arrays]:
        return self._reply

    def close(self) -> None: ...


@pytest.mark.parametrize("name", ["qwen2.5-base", "qwen3-base", "llama3", "llama3.1", "gemma3", "phi3"])
def test_vllm_stops_at_every_end(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = ModuleType("vllm")
    recorded.SamplingParams = lambda **settings: SimpleNamespace(**settings)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", recorded)
    save_model(LAYOUTS[name], tmp_path)
    policy = load_policy(tmp_path)
    assert policy.tokenizer is not None
    engine = VllmEngine()
    engine._llm = llm = RecordedLLM(policy.tokenizer.encode("5", add_special_tokens=False))
    sampler = EngineSampler(policy, lambda: InProcess(engine), {})
    sampler._engine, sampler._max_positions = InProcess(engine), 512
    prompts = encode_prompts(policy.tokenizer, PROMPTS[:2], policy.ends)
    config = SamplingConfig(num_samples=len(policy.eos_ids), max_new_tokens=8)
    samples = sampler.sample(prompts, config, generator=torch.Generator().manual_seed(0))
    assert [set(one.stop_token_ids) for one in llm.seen] == [set(policy.eos_ids)] * 2
    assert all(one.ignore_eos for one in llm.seen)  # what is listed is all that ends a response
    assert bool(samples.finished.all())
    assert decode_responses(policy.tokenizer, samples.responses(), policy.ends) == ["5"] * len(samples.lengths)


def test_a_draw_that_vllm_fails_at_holds_up_no_later_one() -> None:
    engine, failing = VllmEngine(), RecordedLLM([5])

    def step() -> list[Any]:
        raise RuntimeError("out of order")

    engine._draws.append(["0"])
    engine._draws.append(["1"])
    engine._llm = SimpleNamespace(llm_engine=SimpleNamespace(step=step))
    with pytest.raises(RuntimeError, match="out of order"):
        engine.advance()
    failing.seen = [SimpleNamespace(n=1, stop_token_ids=[3])] * 2
    engine._llm = failing
    found = engine.advance()
    assert found is not None and found["tokens"].tolist() == [5, 3]


@pytest.mark.parametrize("structured", [False, True])
def test_vllm_gets_each_requests_own_language(structured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded, sampling = ModuleType("vllm"), ModuleType("vllm.sampling_params")
    recorded.SamplingParams = lambda **settings: SimpleNamespace(**settings)  # type: ignore[attr-defined]
    sampling.StructuredOutputsParams = lambda **given: SimpleNamespace(**given)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", recorded)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", sampling)
    engine, llm = VllmEngine(), RecordedLLM([5])
    engine._llm = llm
    whole = {"tokens": [7, 8, 9], "lengths": [1, 1, 1], "counts": [1, 1, 1], "limits": [4, 4, 4], "seeds": [0, 1, 2]}
    arrays = {name: np.array(values) for name, values in whole.items()}
    settings: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "stop": [3]}
    if structured:
        settings["structured"] = [{"choice": ["a"]}, {"grammar": 'root ::= "b"'}]
        arrays["languages"] = np.array([0, 1, 0])
    engine.submit(settings, arrays)
    if not structured:
        assert not any(hasattr(one, "structured_outputs") for one in llm.seen)
        return
    told = [one.structured_outputs for one in llm.seen]
    assert [vars(one) for one in told] == [{"choice": ["a"]}, {"grammar": 'root ::= "b"'}, {"choice": ["a"]}]
    assert told[0] is not told[2]  # vLLM writes into it
