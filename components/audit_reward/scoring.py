"""What texts earn: each in a group with responses of the model itself, by the stage's own rewards and combination."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from components.rl.batch.batch import FAILED, RIGHT, UNSCORED, WRONG, Batch, Prompt
from components.rl.batch.joining import regroup
from components.rl.step.collector import Collector
from components.rl.step.loop import Loop

OUTCOMES = {RIGHT: "right", WRONG: "wrong", FAILED: "failed", UNSCORED: "unscored"}


@dataclass(frozen=True)
class Earned:
    """What one text earned at one prompt."""

    text: str
    """As it was judged: cut at the limit."""
    reward: float
    """NaN where the reward, or the verifier, could not say."""
    outcome: str
    """right, wrong, failed or unscored: what the item's verifier says."""


class Scorer:
    """Gives rewards to texts, without training anything."""

    def __init__(self, loop: Loop, prompts: Sequence[Prompt], num_samples: int) -> None:
        """Draw `num_samples` responses of the model to each of the prompts."""
        self._loop, self.prompts = loop, list(prompts)
        loop.sampler.load_weights(gather=loop.learner.trainer.gather)
        self._drawn = loop.collector().draw(self.prompts, num_samples)

    def own(self) -> list[Earned]:
        """Return what the model's own responses earn among themselves, prompt by prompt."""
        return [earned for _, earned in _scored(self._loop.collector(), self._drawn)]

    def earned(self, texts: Mapping[int, str]) -> dict[int, Earned]:
        """Return what one text earns at each of some prompts, in a group with the model's own responses.

        `texts` and the result are by the place of the prompt.
        """
        if not texts:
            return {}
        places, collector = sorted(texts), self._loop.collector()
        played = collector.responses([self.prompts[at] for at in places], [texts[at] for at in places], external=False)
        mine = torch.isin(self._drawn.group, torch.tensor(places))
        first: dict[int, Earned] = {}
        for group, earned in _scored(collector, regroup([played, self._drawn.select(mine)])):
            first.setdefault(places[group], earned)
        return first


def _scored(collector: Collector, batch: Batch) -> Iterator[tuple[int, Earned]]:
    """Yield group and earnings of every row, in order."""
    collector.score(batch)
    scored = collector.seen[-1]
    for row, group in enumerate(scored.group.tolist()):
        outcome = OUTCOMES[int(scored.outcomes[row])]
        reward = math.nan if outcome == "failed" else float(scored.rewards[row])
        yield group, Earned(scored.texts[row], reward, outcome)
