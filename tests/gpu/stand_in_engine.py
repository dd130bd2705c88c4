"""Stands in for vLLM where there is none: transformers' own generation, in the engine's process, on the device."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from components.modeling.generation.engine.frames import Arrays, Header
from tests.gpu.device import DEVICE, ON_GPU
from tests.modeling.generation.bucket_engine import BucketEngine

TARGET, HOST_ONLY = f"{__name__}:StandInEngine", f"{__name__}:HostOnlyEngine"
TYPES = {"tokens": np.int32, "lengths": np.int32, "logprobs": np.float32, "finished": np.bool_}


class StandInEngine(BucketEngine):
    """Draws each request by itself, token by token, with the log-probabilities of transformers.

    Takes weights as vLLM's workers do: through the trainer's buffer on the same GPU, or through the host's memory.
    """

    model: PreTrainedModel

    def start(self, folder: str, options: dict[str, Any]) -> Header:
        """Make the model of config.json, still without weights, in the precision of the policy."""
        config = AutoConfig.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, options["dtype"])).to(DEVICE).eval()
        self._opened: tuple[Tensor, dict[str, Any]] | None = None
        gpus = {"gpus": [str(torch.cuda.get_device_properties(0).uuid)]} if ON_GPU else {}
        return {"max_positions": config.max_position_embeddings, **gpus}

    def connect(self, settings: Header) -> None:
        """Take CUDA IPC on a GPU, and else the host's memory."""
        if settings["way"] == "cuda_ipc" and ON_GPU:
            self._open(settings["handles"])
            self._opened = None
        else:
            super().connect(settings)
        self.way = settings["way"]

    def take(self, bucket: Header) -> None:
        """Copy the tensors of a bucket."""
        if self.way != "cuda_ipc":
            super().take(bucket)
            return
        buffer, at, dtype = self._open(bucket["handles"]), 0, getattr(torch, bucket["dtype"])
        for name, shape in zip(bucket["names"], bucket["shapes"], strict=True):
            end = at + torch.Size(shape).numel() * dtype.itemsize
            self.weights[name] = buffer[at:end].view(dtype).view(shape).clone()
            at = end
        torch.cuda.synchronize()

    def _open(self, handles: dict[str, list[Any]]) -> Tensor:
        """Return the trainer's buffer, which is opened once for as long as its handles stay the same."""
        from torch.multiprocessing.reductions import rebuild_cuda_tensor

        if self._opened is None or self._opened[1] != handles:
            own = handles[str(torch.cuda.get_device_properties(0).uuid)]
            handle, size, offset, counter, counter_offset, event, synchronize = map(_bytes, own)
            kinds = (torch.Tensor, torch.Size([size]), (1,), 0, torch.storage.TypedStorage, torch.uint8, 0)
            shared = (handle, size, offset, False, counter, counter_offset, event, synchronize)
            self._opened = rebuild_cuda_tensor(*kinds, *shared), handles
        return self._opened[0]

    def end(self) -> None:
        """Draw with the weights that came."""
        self.model.load_state_dict(self.weights, strict=False)
        self.model.tie_weights()
        self.weights, self._opened = {}, None

    def sample(self, settings: Header, arrays: Arrays) -> Arrays:
        """Draw request by request."""
        found: dict[str, list[Any]] = {name: [] for name in TYPES}
        ends = np.cumsum(arrays["lengths"])[:-1]
        columns = (arrays[name].tolist() for name in ("counts", "limits", "seeds"))
        for prompt, count, limit, seed in zip(np.split(arrays["tokens"], ends), *columns, strict=True):
            torch.manual_seed(seed)
            for _ in range(count):
                tokens, logprobs, finished = self._draw(prompt.tolist(), limit, settings)
                found["tokens"] += tokens
                found["logprobs"] += logprobs
                found["lengths"].append(len(tokens))
                found["finished"].append(finished)
        return {name: np.array(values, dtype=TYPES[name]) for name, values in found.items()}

    @torch.inference_mode()
    def _draw(self, prompt: list[int], limit: int, settings: Header) -> tuple[list[int], list[float], bool]:
        cache, given, tokens, logprobs = None, torch.tensor([prompt], device=DEVICE), [], []
        for _ in range(limit):
            out = self.model(given, past_key_values=cache, use_cache=True)
            scores = torch.log_softmax(out.logits[0, -1].float() / (settings["temperature"] or 1.0), -1)
            token = int(scores.argmax() if not settings["temperature"] else torch.multinomial(scores.exp(), 1))
            tokens.append(token)
            logprobs.append(float(scores[token]))
            cache, given = out.past_key_values, torch.tensor([[token]], device=DEVICE)
            if token in settings["stop"]:
                return tokens, logprobs, True
        return tokens, logprobs, False

    def rest(self) -> Header:
        """Give the cached memory back."""
        if ON_GPU:
            torch.cuda.empty_cache()
        return {}


class HostOnlyEngine(StandInEngine):
    """Takes weights through the host's memory alone."""

    def connect(self, settings: Header) -> None:
        """Refuse CUDA IPC."""
        BucketEngine.connect(self, settings)
        self.way = settings["way"]


def _bytes(value: Any) -> Any:
    """Undo how the trainer writes bytes in a message."""
    return b64decode(value["base64"]) if isinstance(value, dict) else value
