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
from components.modeling.generation.constraint import Constraint
from components.modeling.generation.engine.engine_process import EngineFailed, EngineProcess, EngineStuck
from components.modeling.generation.engine.frames import Arrays
from components.modeling.generation.engine.languages import STRUCTURED, check_constrained, constraint_of, told
from components.modeling.generation.engine.orders import Orders, order_of
from components.modeling.generation.engine.requests import NOTHING, Request, plan_requests, to_samples
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
        self._orders = Orders()

    @property
    def pid(self) -> int | None:
        """Return the engine's process id; None before the first weights."""
        return None if self._engine is None else self._engine.pid

    def load_weights(self, policy: Policy | None = None, *, gather: Gather = held) -> None:
        """Give the engine new weights in place, after what is being drawn; restart it for another architecture."""
        if self._engine is not None:
            self._or_another(self._orders.finish)
        self.policy = policy or self.policy
        if gather is not held:  # the other ranks would wait for this one while it tries again
            self._give_weights(gather)
        elif self._engine is not None:
            self._or_another(lambda _: self._give_weights())
        else:  # one that has started has them
            self._or_another(lambda engine: engine)

    def _give_weights(self, gather: Gather = held) -> EngineProcess:
        if gather is held and (self.policy.is_sharded or self.policy.cuts):  # the other ranks are elsewhere
            raise EngineFailed("the engine has lost its weights, and those of the policy are sharded; try again")
        _free_cached_memory()
        with tempfile.TemporaryDirectory(prefix="posttrain-model-") as folder:
            self.policy.export_config(Path(folder))
            if self._options.get(STRUCTURED):
                self.policy.save_tokenizer(Path(folder))
            config = json.loads((Path(folder) / "config.json").read_text())
            if self._engine is not None and config != self._config:
                self._end_engine()
            engine = self._engine or self._start_engine(folder)
            self._config = config
        self._handover.give(engine, self.policy, gather)
        self._weightless = False
        return engine

    def _or_another(self, attempt: Callable[[EngineProcess], T]) -> T:
        """Return what `attempt` returns; if the engine gets stuck in it, try once more with another one.

        That has the same weights and draws what the first one left open, unless weights have changed meanwhile.
        """
        try:
            return attempt(self._engine or self._give_weights())
        except EngineStuck as stuck:
            self._end_engine()
            if not self._orders.steady:
                self._orders.clear()
                raise
            print_error(f"{stuck}\nanother engine takes its place")
        try:
            engine = self._give_weights()
            self._orders.again(engine)
            return attempt(engine)
        except EngineStuck as stuck:
            self.close()
            raise EngineFailed(
                f"a second engine got stuck, too; try `backend: {{sampler: native}}`: {stuck}"
            ) from stuck

    def _start_engine(self, folder: str) -> EngineProcess:
        self._engine = engine = self._start()
        dtype = str(self.policy.pass_dtype).removeprefix("torch.")
        try:
            facts, _ = engine.call(
                "start", "while it started", folder=folder, options={**self._options, "dtype": dtype}
            )
            self._handover.connect(engine, self.policy.device, facts.get("gpus", ()))
        except BaseException:
            self._end_engine()
            raise
        self._max_positions = int(facts["max_positions"])
        return engine

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

        A forced token's log-probability is the policy's. One seed per request is drawn from `generator`. Of processors
        only a constraint can be told to an engine, which draws by its structured outputs.
        """
        constraint, prefixes = constraint_of(options.get("processor")), options.get("prefixes")
        drawing = self._begin_draw(prompts, config, generator, prefixes, constraint, steady=True)
        samples = scored(self.policy, prompts, drawing.samples(), temperature=config.temperature)
        if (progress := options.get("progress")) is not None:
            progress(len(samples.lengths), len(samples.lengths))
        return samples

    @property
    def rows_ahead(self) -> int:
        """Return twice what the engine draws at a time, so that it is full as one draw ends."""
        return 2 * int(self._options.get("max_rows", 0))

    def begin(
        self,
        prompts: Sequence[Sequence[int]],
        config: SamplingConfig,
        *,
        generator: torch.Generator,
        prefixes: Sequence[Sequence[int]] | None = None,
        constraint: Constraint | None = None,
        steady: bool = False,
    ) -> Drawing:
        """Order a draw, which the engine does in the background, beside others.

        Unless it is `steady`, an engine that gets stuck is not replaced: the weights that it drew with may be gone.
        """
        return self._begin_draw(prompts, config, generator, prefixes, constraint, steady=steady)

    def _begin_draw(
        self,
        prompts: Sequence[Sequence[int]],
        config: SamplingConfig,
        generator: torch.Generator,
        prefixes: Sequence[Sequence[int]] | None,
        constraint: Constraint | None,
        *,
        steady: bool,
    ) -> Drawing:
        check_request(self.policy, prompts, config, prefixes)
        check_constrained(constraint, self._options, prefixes)
        if 0 < config.temperature < MIN_TEMPERATURE:
            raise InputError(
                f"an engine draws at temperature 0, or {MIN_TEMPERATURE} and more, not at {config.temperature}; "
                "set another temperature, or `sampler: native`"
            )
        if self._engine is None or self._weightless:
            self.load_weights()
        self._check_positions(prompts, config)
        ends = frozenset({*self.policy.eos_ids, *config.stop_token_ids})
        requests = plan_requests(prompts, config, prefixes, ends)
        if not any(request.limit for request in requests):
            return Drawing(lambda: self._samples(requests, NOTHING, config))
        order = told(
            order_of(requests, config, ends, generator, steady=steady), constraint, requests, config.num_samples
        )
        _free_cached_memory()
        self._or_another(lambda engine: self._orders.place(engine, order))

        def collect() -> Samples:
            samples = self._samples(requests, self._or_another(lambda one: self._orders.answer(one, order)), config)
            if constraint is not None:
                constraint.check(samples)
            return samples

        return Drawing(collect)

    def _samples(self, requests: list[Request], reply: Arrays, config: SamplingConfig) -> Samples:
        facts = {"pad_id": self.policy.pad_id, "vocab_size": self.policy.vocab_size}
        num_rows = sum(len(request.rows) for request in requests)
        try:
            return to_samples(requests, reply, config, num_rows=num_rows, **facts)
        except (KeyError, ValueError) as error:
            raise EngineFailed(f"the engine's reply does not fit the request: {error}") from error

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
        if self._engine is None or self._orders:
            return
        try:
            facts, _ = self._engine.call("rest", "while it gave memory back")
            self._weightless = bool(facts.get("weightless"))
        except EngineStuck as stuck:
            self._end_engine()  # the next weights start another
            print_error(f"{stuck}\nanother engine takes its place")

    def close(self) -> None:
        """End the engine."""
        self._orders.clear()
        self._end_engine()

    def _end_engine(self) -> None:
        if self._engine is not None:
            self._handover.close()
            self._engine.close()
            self._engine = None


def _free_cached_memory() -> None:
    """Release torch's cached GPU memory: the engine takes its share of the GPU when it wakes."""
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
