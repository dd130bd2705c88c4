"""The rollout queue: draws begun before the step that learns from them, so that an engine draws during training.

Shapes: P prompts, S samples (rows), T response tokens.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from components.modeling.generation.generate import Samples
from components.modeling.generation.sampler import Drawing
from components.rl.batch.as_json import batch_from_json, batch_to_json
from components.rl.batch.batch import Batch, Prompt

TENSORS = tuple(field.name for field in fields(Samples) if field.name not in ("num_samples", "policy_logprobs"))

BATCH = "batch"
VERSION, UNKNOWN = "version", -1
"""Where a checkpoint holds the version of a draw; what it is in checkpoints from before it was kept."""


@dataclass(frozen=True)
class QueuedDraw:
    """A draw with its prompts: single responses still being drawn, or conversations, which are drawn at once."""

    prompts: Sequence[Prompt]
    drawing: Drawing | Batch
    version: int = UNKNOWN
    """Steps done by the weights that draw."""


class RolloutQueue:
    """Draws in the order they are learned from. Checkpoints hold them, as the weights that drew them are not kept."""

    def __init__(self) -> None:
        self._queue: deque[QueuedDraw] = deque()
        self._begun: list[Prompt] | None = None

    def __len__(self) -> int:
        """Return the number of queued draws."""
        return len(self._queue)

    @property
    def versions(self) -> list[int]:
        """Return the version of each queued draw, the next one first."""
        return [ordered.version for ordered in self._queue]

    @property
    def prompts(self) -> list[Prompt]:
        """Return the prompts of all queued draws."""
        return [prompt for queued in self._queue for prompt in queued.prompts]

    def take_begun(self) -> list[Prompt] | None:
        """Return the prompts of the draws that the last exchange began, once; None if there was none since."""
        begun, self._begun = self._begun, None
        return begun

    def exchange(self, begin: Callable[[], QueuedDraw], depth: int, steps_left: int) -> QueuedDraw:
        """Begin a draw and return the one begun `depth` steps ago; the first call begins enough to fill the queue.

        `steps_left` includes this step; a draw that none of these steps would use is not begun. When it counts the
        steps of a phase, no draw is older than `depth`, and each is drawn with the settings of its own phase.
        """
        self._begun = []
        while len(self._queue) < min(depth + 1, steps_left):
            self._queue.append(begin())
            self._begun += self._queue[-1].prompts
        return self._queue.popleft()

    def state(self, pool: Sequence[Prompt]) -> dict[str, Tensor]:
        """Wait for all draws; return them for a checkpoint: "<draw>:<field>" -> tensor, prompts by index in `pool`."""
        places = {prompt.item.id: place for place, prompt in enumerate(pool)}
        saved: dict[str, Tensor] = {}
        for index, ordered in enumerate(self._queue):
            saved[f"{index:03d}:{VERSION}"] = torch.tensor(ordered.version)
            if isinstance(ordered.drawing, Batch):
                saved[f"{index:03d}:{BATCH}"] = _bytes(ordered.drawing)
                continue
            samples = ordered.drawing.samples()
            parts = {name: getattr(samples, name) for name in TENSORS} | {
                "prompts": torch.tensor([places[prompt.item.id] for prompt in ordered.prompts]),
                "num_samples": torch.tensor(samples.num_samples),
            }
            saved |= {f"{index:03d}:{name}": tensor.clone() for name, tensor in parts.items()}
        return saved

    def load_state(self, saved: Mapping[str, Tensor], pool: Sequence[Prompt]) -> None:
        """Restore what `state` returned."""
        self._queue.clear()
        for index in sorted({key.partition(":")[0] for key in saved}):
            version = int(saved.get(f"{index}:{VERSION}", torch.tensor(UNKNOWN)))
            if f"{index}:{BATCH}" in saved:
                batch = batch_from_json(json.loads(bytes(saved[f"{index}:{BATCH}"].tolist())), pool)
                self._queue.append(QueuedDraw(batch.prompts, batch, version))
                continue
            parts = {name: saved[f"{index}:{name}"] for name in (*TENSORS, "prompts", "num_samples")}
            prompts = [pool[place] for place in parts["prompts"].tolist()]
            self._queue.append(QueuedDraw(prompts, _drawn(parts), version))


def _bytes(batch: Batch) -> Tensor:
    """Return a batch as the bytes of its JSON."""
    return torch.tensor(list(json.dumps(batch_to_json(batch)).encode()), dtype=torch.uint8)


def _drawn(parts: Mapping[str, Tensor]) -> Drawing:
    samples = Samples(num_samples=int(parts["num_samples"]), **{name: parts[name] for name in TENSORS})
    return Drawing(lambda: samples)
