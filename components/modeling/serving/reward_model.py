"""A reward model beside the trained one: it rates texts, with its own tokenizer, in forward passes of bounded size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from components.contract.errors import InputError
from components.contract.heads import SCORES, head_of
from components.modeling.models.folder import read_config
from components.modeling.scorers.layout import KEY
from components.modeling.serving.models import Asked, Drawing, Likelihood, Opinions, Rater, Scorer, Writer, Written

if TYPE_CHECKING:
    from torch import Tensor

    from components.modeling.scorers.network import Reading, RewardNetwork

MAX_TOKENS = 16384
"""Most tokens of one forward pass."""
T = TypeVar("T")


def is_reward_model(folder: Path) -> bool:
    """Return whether a model folder is a reward model's."""
    return head_of(read_config(folder)) in SCORES


class LocalRewardModel(Writer, Scorer, Rater):
    """A frozen reward model; its weights are loaded on first use. Ranks share the rating: all must call.

    It says nothing of how likely a text is, and writes none: asked for that, it is an error.
    """

    def __init__(self, name: str, folder: Path, *, device: str, dtype: str) -> None:
        self.name = name
        self._folder, self._device, self._dtype = folder, device, dtype

    def rate(self, pairs: Sequence[tuple[Asked, str]]) -> list[float | None]:
        """Return the reward of each (task, response), each distinct pair once.

        None for one that is longer than the model reads, that names a mark of the model's template or an end of its
        turns, or that the template cannot render, and for a reward that is not finite. Where steps are scored, it is
        the lowest of theirs, or their sum, as the model's config says. Raises InputError, on all ranks alike, where no
        text could be rendered.
        """

        def reward(outputs: Tensor) -> Tensor:
            return self._network.layout.reward_of(outputs)

        return self._asked(pairs, reward, self._reward)

    def opinions(self, pairs: Sequence[tuple[Asked, str]]) -> list[Opinions | None]:
        """Return what the heads of an ensemble say of each (task, response); None where `rate` gives None."""
        import torch

        layout = self._network.layout
        if layout.reward != "mean_of_gaussians":
            return super().opinions(pairs)

        def gaussians(outputs: Tensor) -> Tensor:
            return torch.stack(layout.gaussians_of(outputs), -2)

        return self._asked(pairs, gaussians, _opinions)

    def _asked(
        self, pairs: Sequence[tuple[Asked, str]], read: Callable[[Tensor], Tensor], one: Callable[[Tensor], T | None]
    ) -> list[T | None]:
        """Return what `one` says of the values that `read` makes of the outputs at a text's places [places, ...]."""
        from components.modeling.ranks import current_ranks

        keyed = [(asked if isinstance(asked, str) else tuple(asked), text) for asked, text in pairs]
        ranks, distinct = current_ranks().all, list(dict.fromkeys(keyed))
        told = ranks.gather(self._rate(ranks.share(distinct), read, one))
        problems = [problem for _, found in told for problem in found]
        if problems and len(problems) == len(distinct):
            raise InputError(f"{self.name}: {problems[0]}")
        found = dict(zip(distinct, ranks.together([values for values, _ in told]), strict=True))
        return [found[pair] for pair in keyed]

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[Likelihood | None]:
        """Raise InputError: it has no log-probabilities."""
        self._refuse("says how good a text is, not how likely")

    def write(self, prompts: Sequence[Asked], drawing: Drawing) -> list[list[Written | None]]:
        """Raise InputError: it writes nothing."""
        self._refuse("scores texts, and writes none")

    def close(self) -> None:
        """Nothing is open."""

    def _refuse(self, does: str) -> NoReturn:
        raise InputError(f"{self.name} is a reward model, and a language model is wanted: it {does}")

    def _reward(self, values: Tensor) -> float | None:
        """Return a text's reward from those at its places."""
        reward = float(values.sum() if self._network.layout.over == "sum" else values.min())
        return reward if math.isfinite(reward) else None

    def _rate(
        self, pairs: Sequence[tuple[Asked, str]], read: Callable[[Tensor], Tensor], one: Callable[[Tensor], T | None]
    ) -> tuple[list[T | None], list[str]]:
        """Return what is said, and why texts could not be rendered: a rank that raised would leave others waiting."""
        import torch

        from components.modeling.packing.batching import micro_batches
        from components.modeling.scorers.network import packed_readings

        network, (readings, problems) = self._network, self._readings(pairs)
        lengths = {at: len(one.tokens) for at, one in readings.items()}
        groups: dict[Asked, list[int]] = {}  # responses to one task: a pass computes the task once
        for at, length in lengths.items():
            if length <= network.policy.max_positions:
                groups.setdefault(pairs[at][0], []).append(at)
        parts = [
            [group[index] for index in part]
            for group in groups.values()
            for part in micro_batches([lengths[at] for at in group], MAX_TOKENS)
        ]
        found: list[T | None] = [None] * len(pairs)
        with torch.no_grad():
            for chosen in micro_batches([sum(lengths[at] for at in part) for part in parts], MAX_TOKENS):
                rated = [[readings[at] for at in parts[index]] for index in chosen]
                told = read(network.outputs(packed_readings(rated, network.policy.device))).double().cpu()
                order = [at for index in chosen for at in parts[index]]
                counts = [len(readings[at].places) for at in order]
                for at, values in zip(order, told.split(counts), strict=True):
                    found[at] = one(values)
        return found, problems

    def _readings(self, pairs: Sequence[tuple[Asked, str]]) -> tuple[dict[int, Reading], list[str]]:
        """Return what can be read by its index, and why the template could not render some of the rest."""
        from components.modeling.scorers.reading import forged

        honest = [at for at, (asked, text) in enumerate(pairs) if forged(self._network.policy, asked, [text]) is None]
        try:
            return dict(zip(honest, self._read([pairs[at] for at in honest]), strict=True)), []
        except InputError:
            found: dict[int, Reading] = {}
            problems = []
            for at in honest:  # some templates fail on some texts alone
                try:
                    (found[at],) = self._read([pairs[at]])
                except InputError as error:
                    problems.append(str(error))
            return found, problems

    def _read(self, pairs: Sequence[tuple[Asked, str]]) -> list[Reading]:
        from components.modeling.scorers.reading import read_responses, read_steps, steps_of

        layout = self._network.layout
        if not layout.separator:
            return read_responses(self._network.policy, pairs, whole=not self._made_here)
        rows = [(asked, steps_of(text, layout.separator)) for asked, text in pairs]
        return read_steps(self._network.policy, rows, layout.separator)

    @cached_property
    def _made_here(self) -> bool:
        return KEY in read_config(self._folder)

    @cached_property
    def _network(self) -> RewardNetwork:
        from components.modeling.scorers.load import load_network

        return load_network(self._folder, self.name, device=self._device, dtype=self._dtype)


def _opinions(values: Tensor) -> Opinions | None:
    """Return the heads' Gaussians at a text's end, [1, 2, heads]; None where one is not finite."""
    means, log_stds = values[-1].tolist()
    return Opinions(tuple(means), tuple(log_stds)) if bool(values.isfinite().all()) else None
