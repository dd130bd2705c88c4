"""vLLM as an engine: runs in the engine's process, whose environment has vLLM. Token ids in, token ids out.

On a GPU it sleeps between rollouts, with neither weights nor cache in memory (level 2), to leave it to training; its
CPU build cannot. It wakes for new weights, which are replaced in place (vllm_worker.py), and only then for its cache.
"""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from components.modeling.generation.engine.frames import Arrays, Header
from components.modeling.generation.engine.languages import LANGUAGES, STRUCTURED
from components.modeling.generation.engine.pulse import beat
from components.modeling.models.model_sizes import ModelSizes

WORKER = "components.modeling.generation.engine.vllm_worker.Worker"
RECEIVER = "posttrain"
"""Name by which vLLM knows the receiver of weights in vllm_worker.py."""


class VllmEngine:
    """One offline vLLM engine."""

    def __init__(self) -> None:
        self._llm: Any = None
        self._can_sleep = False
        self._asleep: set[str] = set()
        self._draws: deque[list[str]] = deque()
        """Names of the requests of each draw, oldest first."""
        self._finished: dict[str, Any] = {}

    def start(self, folder: str, options: dict[str, Any]) -> Header:
        """Make the model of a folder's config, without weights.

        Options: dtype, gpus, gpu_memory_share, max_rows, sleeps: whether its memory is wanted between rollouts, and
        structured: whether draws will be constrained, for which vLLM reads the folder's tokenizer.
        """
        from vllm import LLM
        from vllm.platforms import current_platform

        on_gpu = current_platform.is_cuda()
        self._can_sleep = on_gpu and options["sleeps"]
        self._llm = LLM(
            folder,
            load_format="dummy",  # weights come bucket by bucket
            weight_transfer_config={"backend": RECEIVER},
            dtype=options["dtype"],
            tensor_parallel_size=_split(folder, options["gpus"]),
            gpu_memory_utilization=options["gpu_memory_share"],
            max_num_seqs=options["max_rows"],
            max_model_len=-1,  # as long as the model can, or as the cache has room for
            enforce_eager=not on_gpu,
            enable_sleep_mode=self._can_sleep,
            enable_prefix_caching=True,
            skip_tokenizer_init=not options.get(STRUCTURED),
            structured_outputs_config={"backend": "xgrammar"},  # it ends a text with any of the stop tokens
            logprobs_mode="processed_logprobs",  # of the distribution that is drawn from
            worker_extension_cls=WORKER,
            generation_config="vllm",  # no sampling defaults from the model folder
            seed=0,
            trust_remote_code=False,
        )
        _count_steps(self._llm.llm_engine)
        gpus = [uuid for uuid in self._llm.collective_rpc("posttrain_gpu") if uuid]
        return {"max_positions": int(self._llm.llm_engine.model_config.max_model_len), "gpus": gpus}

    def connect(self, settings: Header) -> None:
        """Open the way that weights come by."""
        self._llm.init_weight_transfer_engine({"init_info": settings})

    def begin(self) -> None:
        """Make room for new weights; the cache may stay away meanwhile."""
        self._wake("weights")
        self._llm.start_weight_update()

    def take(self, bucket: Header) -> None:
        """Load one bucket."""
        self._llm.update_weights({"update_info": bucket})

    def end(self) -> None:
        """Compute with the new weights from now on, and drop cached prefixes, which belong to the old ones."""
        self._llm.finish_weight_update()
        self._wake("kv_cache")
        if not self._llm.reset_prefix_cache():
            raise RuntimeError("vLLM kept its prefix cache, which belongs to the old weights")

    def submit(self, settings: Header, arrays: Arrays) -> None:
        """Begin a draw among those that are in progress; see requests.py."""
        from vllm import SamplingParams

        constraints = _structured(settings, arrays)
        prompts = np.split(arrays["tokens"], np.cumsum(arrays["lengths"])[:-1])
        columns = (arrays[name].tolist() for name in ("counts", "limits", "seeds"))
        names = self._llm.enqueue(
            [{"prompt_token_ids": prompt.tolist()} for prompt in prompts],
            [
                SamplingParams(
                    n=count,
                    max_tokens=limit,
                    seed=seed,
                    temperature=settings["temperature"],
                    top_p=settings["top_p"],
                    top_k=settings["top_k"],
                    stop_token_ids=settings["stop"],
                    ignore_eos=True,  # only the stop tokens end a response
                    logprobs=0,
                    flat_logprobs=True,
                    detokenize=False,
                    **constraint,
                )
                for count, limit, seed, constraint in zip(*columns, constraints, strict=True)
            ],
            use_tqdm=False,
        )
        self._draws.append([name.partition("-")[0] for name in names])  # without what vLLM adds to its own use

    def advance(self) -> Arrays | None:
        """Do one step of all draws; return the responses of the oldest when all of them are there."""
        try:
            outputs = self._llm.llm_engine.step()
        except Exception:
            self._draws.popleft()  # its error is told now: a later draw must not wait for it
            raise
        for output in outputs:
            if output.finished:
                self._finished[output.request_id] = output
        names = self._draws[0]
        if not all(name in self._finished for name in names):
            return None
        outputs = [self._finished.pop(name) for name in self._draws.popleft()]
        return _to_arrays([found for output in outputs for found in sorted(output.outputs, key=lambda o: o.index)])

    def rest(self) -> Header:
        """Release the GPU's memory, that of the weights, too: new ones come before the next draw."""
        if self._can_sleep and not self._asleep:
            self._llm.sleep(level=2)
            self._asleep = {"weights", "kv_cache"}
        return {"weightless": bool(self._asleep)}

    def _wake(self, what: str) -> None:
        if what in self._asleep:
            self._llm.wake_up(tags=[what])
            self._asleep.remove(what)


def _structured(settings: Header, arrays: Arrays) -> list[dict[str, Any]]:
    """Return for each request what SamplingParams gets beside the rest: its language, if the draw is constrained.

    Each has an object of its own: vLLM writes into it.
    """
    languages = settings.get(STRUCTURED)
    if languages is None:
        return [{} for _ in arrays["counts"]]
    from vllm.sampling_params import StructuredOutputsParams

    return [{"structured_outputs": StructuredOutputsParams(**languages[at])} for at in arrays[LANGUAGES].tolist()]


def _count_steps(engine: Any) -> None:
    """Give a beat for each step of all rows, by which the stage knows that vLLM gets on."""
    step = engine.step

    def counted() -> Any:
        outputs = step()
        beat()
        return outputs

    engine.step = counted


def _split(folder: str, gpus: int) -> int:
    """Return the number of GPUs to split a folder's model over; 1 where config.json has no sizes that we can read."""
    sizes = ModelSizes.from_config(json.loads((Path(folder) / "config.json").read_text()))
    return sizes.most_gpus(gpus) if sizes else 1


def _to_arrays(responses: list[Any]) -> Arrays:
    """Return the arrays of a reply; the first log-probability at each position is the sampled token's."""
    logprobs = [value for found in responses for value in _sampled_logprobs(found)]
    return {
        "tokens": np.array([token for found in responses for token in found.token_ids], dtype=np.int32),
        "lengths": np.array([len(found.token_ids) for found in responses], dtype=np.int32),
        "logprobs": np.array(logprobs, dtype=np.float32),
        "finished": np.array([found.finish_reason == "stop" for found in responses], dtype=bool),
    }


def _sampled_logprobs(response: Any) -> list[float]:
    flat = response.logprobs
    first = [flat.logprobs[start] for start in flat.start_indices]
    if [flat.token_ids[start] for start in flat.start_indices] != list(response.token_ids):
        raise RuntimeError("vLLM's log-probabilities are not those of the tokens that it drew")
    return first
