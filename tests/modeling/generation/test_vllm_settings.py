"""What vLLM is told of where responses end, without vLLM: its two classes are recorded."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

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
