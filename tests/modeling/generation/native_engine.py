"""The native sampler as an engine, and one that is never updated."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from components.modeling.generation.engine.frames import Arrays, Header
from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.modeling.models.policy import Policy
from tests.modeling.generation.bucket_engine import BucketEngine

FILES = ("config.json", "generation_config.json")
TYPES = {"tokens": np.int32, "lengths": np.int32, "logprobs": np.float32, "finished": np.bool_}


class NativeEngine(BucketEngine):
    """Draws each request by `generate` with a generator of the request's seed."""

    policy: Policy

    def start(self, folder: str, options: dict[str, Any]) -> Header:
        """Keep the config; says so on stdout."""
        self.config = {name: (Path(folder) / name).read_text() for name in FILES}
        print("the engine has started", flush=True)
        return {"max_positions": options.get("room", json.loads(self.config[FILES[0]])["max_position_embeddings"])}

    def end(self) -> None:
        """Load a policy of the weights that came."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in self.config.items():
                (Path(folder) / name).write_text(text)
            save_file(self.weights, Path(folder) / "model.safetensors")
            self.policy = load_policy(Path(folder))

    def sample(self, settings: Header, arrays: Arrays) -> Arrays:
        """Draw request by request."""
        found: dict[str, list[Any]] = {name: [] for name in TYPES}
        ends = np.cumsum(arrays["lengths"])[:-1]
        columns = (arrays[name].tolist() for name in ("counts", "limits", "seeds"))
        for prompt, count, limit, seed in zip(np.split(arrays["tokens"], ends), *columns, strict=True):
            config = SamplingConfig(
                num_samples=count,
                max_new_tokens=limit,
                stop_token_ids=tuple(settings["stop"]),
                **{name: settings[name] for name in ("temperature", "top_p", "top_k")},
            )
            samples = generate(self.policy, [prompt.tolist()], config, generator=torch.Generator().manual_seed(seed))
            found["tokens"] += samples.flat(samples.tokens).tolist()
            found["logprobs"] += samples.flat(samples.logprobs).tolist()
            found["lengths"] += samples.lengths.tolist()
            found["finished"] += samples.finished.tolist()
        return {name: np.array(values, dtype=TYPES[name]) for name, values in found.items()}


class ForgetfulEngine(NativeEngine):
    """Skips every update after the first weights."""

    def end(self) -> None:
        """Load the first weights only."""
        if not hasattr(self, "policy"):
            super().end()
