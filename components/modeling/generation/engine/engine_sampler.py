"""EngineSampler: draws with an engine in its own process, which loads the policy's weights."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, Unpack

import torch

from components.contract.errors import InputError
from components.contract.terminal import print_error
from components.modeling.generation.engine.engine_process import EngineFailed, EngineProcess, EngineStuck
from components.modeling.generation.engine.frames import Arrays
from components.modeling.generation.engine.requests import NOTHING, Request, plan_requests, to_arrays, to_samples
from components.modeling.generation.engine.transfer.handover import Handover, timings
from components.modeling.generation.generate import DrawOptions, Samples, check_request
from components.modeling.generation.sampler import Drawing, Sampler
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.generation.scoring import scored
from components.modeling.models.gpus import MEMORY_SHARE
from components.modeling.models.policy import Gather, Policy, held

T = TypeVar("T")
MIN_TEMPERATURE = 0.01
"""vLLM raises temperatures between 0 and this value to it."""


class EngineSampler(Sampler):
    """Samples of an engine, with the policy's log-probabilities beside the engine's own.

    The engine starts with the first weights. Samples come from the weights of the last `load_weights`.
    """

    is_policy = False

    def __init__(self, policy: Policy, start: Callable[[], EngineProcess], options: dict[str, Any]) -> None:
        """`start` returns an engine process; the engine gets `options` and the policy's dtype."""
        super().__init__(policy)
        self._start, self._options = start, options
        self._engine: EngineProcess | None = None
        self._config: Any = None
        """config.json of the model that the engine was started with."""
        self._max_positions = 0
        self._handover = Handover()
        self._weightless = False
        """Whether the engine has let go of its weights."""
        self._under_way: Drawing | None = None

    @property
    def pid(self) -> int | None:
        """Return the engine's process id; None before the first weights."""
        return None if self._engine is None else self._engine.pid

    def load_weights(self, policy: Policy | None = None, *, gather: Gather = held) -> None:
        """Give the engine new weights in place; restart an engine that runs another architecture."""
        self._finish()
        self.policy = policy or self.policy
        if gather is held and self.policy.is_sharded:  # the other ranks are elsewhere
            raise EngineFailed("the engine has lost its weights, and those of the policy are sharded; try again")
        if gather is held:
            self._again_if_stuck(self._give_weights)
        else:  # the other ranks would wait for this one while it tries again
            self._give_weights(gather)

    def _give_weights(self, gather: Gather = held) -> None:
        _free_cached_memory()
        with tempfile.TemporaryDirectory(prefix="posttrain-model-") as folder:
            self.policy.export_config(Path(folder))
            config = json.loads((Path(folder) / "config.json").read_text())
            if self._engine is not None and config != self._config:
                self.close()
            if self._engine is None:
                self._start_engine(folder)
                self._config = config
        assert self._engine is not None
        self._handover.give(self._engine, self.policy, gather)
        self._weightless = False

    def _again_if_stuck(self, attempt: Callable[[], T]) -> T:
        """Return what `attempt` returns; if the engine gets stuck in it, try once more with a new engine."""
        try:
            return attempt()
        except EngineStuck as stuck:
            self.close()
            print_error(f"{stuck}\nanother engine takes its place")
        try:
            return attempt()
        except EngineStuck as stuck:
            self.close()
            raise EngineFailed(
                f"a second engine got stuck, too; try `backend: {{sampler: native}}`: {stuck}"
            ) from stuck

    def _start_engine(self, folder: str) -> None:
        self._engine = self._start()
        dtype = str(self.policy.pass_dtype).removeprefix("torch.")
        try:
            facts, _ = self._engine.call(
                "start", "while it started", folder=folder, options={**self._options, "dtype": dtype}
            )
            self._handover.connect(self._engine, self.policy.device, facts.get("gpus", ()))
        except BaseException:
            self.close()
            raise
        self._max_positions = int(facts["max_positions"])

    def timings(self) -> dict[str, float]:
        """Return the mean seconds in which the engine got new weights, and how often by which way."""
        return timings(self._handover.given)

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        config: SamplingConfig,
        *,
        generator: torch.Generator,
        **options: Unpack[DrawOptions],
    ) -> Samples:
        """Draw with the engine, then score with the policy: entropies and `policy_logprobs`.

        A forced token's log-probability is the policy's. One seed per request is drawn from `generator`.
        """
        if options.get("processor") is not None:
            raise InputError("logits cannot be changed on the way in another process; set `sampler: native`")
        state = generator.get_state()

        def draw() -> Samples:
            generator.set_state(state)
            return self._begin_draw(prompts, config, generator, options.get("prefixes")).samples()

        samples = scored(self.policy, prompts, self._again_if_stuck(draw), temperature=config.temperature)
        if (progress := options.get("progress")) is not None:
            progress(len(samples.lengths), len(samples.lengths))
        return samples

    def begin(
        self,
        prompts: Sequence[Sequence[int]],
        config: SamplingConfig,
        *,
        generator: torch.Generator,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> Drawing:
        """Send the request; the engine draws in the background until its next call.

        One that gets stuck is not replaced: the weights that it drew with may be gone.
        """
        return self._begin_draw(prompts, config, generator, prefixes)

    def _begin_draw(
        self,
        prompts: Sequence[Sequence[int]],
        config: SamplingConfig,
        generator: torch.Generator,
        prefixes: Sequence[Sequence[int]] | None,
    ) -> Drawing:
        check_request(self.policy, prompts, config, prefixes)
        if 0 < config.temperature < MIN_TEMPERATURE:
            raise InputError(
                f"an engine draws at temperature 0, or {MIN_TEMPERATURE} and more, not at {config.temperature}; "
                "set another temperature, or `sampler: native`"
            )
        if self._engine is None or self._weightless:
            self.load_weights()
        self._finish()
        self._check_positions(prompts, config)
        ends = frozenset({*self.policy.eos_ids, *config.stop_token_ids})
        requests = plan_requests(prompts, config, prefixes, ends)
        if not any(request.limit for request in requests):
            return Drawing(lambda: self._samples(requests, NOTHING, config))
        reply = self._order(requests, config, ends, generator)

        def collect() -> Samples:
            self._under_way = None
            return self._samples(requests, reply(), config)

        self._under_way = Drawing(collect)
        return self._under_way

    def _order(
        self, requests: list[Request], config: SamplingConfig, ends: frozenset[int], generator: torch.Generator
    ) -> Callable[[], Arrays]:
        """Send what has to be drawn; return a function that waits for the reply."""
        drawing = [request for request in requests if request.limit]
        seeds = torch.zeros(len(drawing), dtype=torch.int64)
        if not config.greedy:
            seeds = torch.randint(2**62, (len(drawing),), generator=generator)
        doing = f"while it drew {sum(len(request.rows) for request in requests)} responses"
        engine = self._engine
        assert engine is not None
        _free_cached_memory()
        engine.send(
            "sample",
            doing,
            to_arrays(drawing, seeds, greedy=config.greedy),
            temperature=config.temperature,
            top_p=config.top_p,
            top_k=config.top_k,
            stop=sorted(ends),
        )
        return lambda: engine.reply(doing)[1]

    def _samples(self, requests: list[Request], reply: Arrays, config: SamplingConfig) -> Samples:
        facts = {"pad_id": self.policy.pad_id, "vocab_size": self.policy.vocab_size}
        num_rows = sum(len(request.rows) for request in requests)
        try:
            return to_samples(requests, reply, config, num_rows=num_rows, **facts)
        except (KeyError, ValueError) as error:
            raise EngineFailed(f"the engine's reply does not fit the request: {error}") from error

    def _finish(self) -> None:
        """Wait for a draw in progress: the engine serves one call at a time."""
        if self._under_way is not None:
            self._under_way.samples()

    def _check_positions(self, prompts: Sequence[Sequence[int]], config: SamplingConfig) -> None:
        wanted = max(map(len, prompts)) + config.max_new_tokens
        if wanted > self._max_positions:
            raise InputError(
                f"{wanted} tokens of prompt and response do not fit the engine's cache, which has room for "
                f"{self._max_positions}; raise {MEMORY_SHARE} on a GPU, VLLM_CPU_KVCACHE_SPACE (GiB) on a CPU, or "
                "shorten max_new_tokens"
            )

    def rest(self) -> None:
        """Let the engine release memory, unless it is drawing ahead."""
        if self._engine is None or self._under_way is not None:
            return
        try:
            facts, _ = self._engine.call("rest", "while it gave memory back")
            self._weightless = bool(facts.get("weightless"))
        except EngineStuck as stuck:
            self.close()  # the next weights start another
            print_error(f"{stuck}\nanother engine takes its place")

    def close(self) -> None:
        """End the engine."""
        if self._engine is not None:
            self._handover.close()
            self._engine.close()
            self._engine = self._under_way = None


def _free_cached_memory() -> None:
    """Release torch's cached GPU memory: the engine takes its share of the GPU when it wakes."""
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
