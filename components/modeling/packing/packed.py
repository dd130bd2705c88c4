"""Packed: many sequences in one forward pass without padding; each prompt is computed once for all its responses.

Shapes: N tokens in the pack, M targets, S sequences (responses), B segments in a bucket, Q and K their widest
query and key counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import torch
from torch import Tensor

from components.contract.errors import InputError
from components.modeling.packing.attention_plan import AttentionPlan
from components.modeling.packing.placing import placed
from components.modeling.packing.ragged import Segment


@dataclass(frozen=True)
class Packed:
    """Tokens of many sequences laid end to end, with the index tensors that training needs."""

    tokens: Tensor
    """[N] token ids."""
    positions: Tensor
    """[N] position of each token in its own sequence; a response continues its prompt's count."""
    predict: Tensor
    """[M] indices into the pack whose hidden state predicts a target."""
    targets: Tensor
    """[M] token ids to be predicted, sequence after sequence in the order given."""
    sequence: Tensor
    """[M] which sequence (flat response index) each target belongs to."""
    num_sequences: int
    """S."""
    segments: tuple[Segment, ...]
    """Ranges of tokens that attend causally among themselves and, if they have one, to a whole prefix."""
    last: Tensor | None = None
    """[S] index of each sequence's last token, when it was kept."""
    own: Tensor | None = None
    """[M] index of each target itself, when last tokens were kept."""

    @property
    def num_tokens(self) -> int:
        """Return N, the tokens that the forward pass computes."""
        return self.tokens.shape[0]

    @property
    def num_targets(self) -> int:
        """Return M."""
        return self.targets.shape[0]

    @property
    def target_counts(self) -> Tensor:
        """Return [S] the number of targets of each sequence."""
        return torch.bincount(self.sequence, minlength=self.num_sequences)

    @cached_property
    def attention(self) -> AttentionPlan:
        """Return the plans of attention, built once for the pack and used by every layer."""
        return AttentionPlan(self.segments, self.tokens.device)

    @cached_property
    def predictors(self) -> tuple[Tensor, Tensor]:
        """Return the distinct tokens that predict something, [L], and which of them predicts each target, [M].

        Responses to one prompt share the token that predicts their first.
        """
        rows, which = torch.unique(self.predict, return_inverse=True)
        return rows, which

    @cached_property
    def hosted(self) -> Packed:
        """Return the pack as it was built, on the host: what is planned of it waits for no GPU."""
        return self

    def to(self, device: torch.device | str) -> Packed:
        """Return the pack on another device."""
        moved = replace(
            self,
            tokens=placed(self.tokens, device),
            positions=placed(self.positions, device),
            predict=placed(self.predict, device),
            targets=placed(self.targets, device),
            sequence=placed(self.sequence, device),
            last=None if self.last is None else placed(self.last, device),
            own=None if self.own is None else placed(self.own, device),
        )
        # Finding distinct tokens on a GPU would wait for it.
        moved.__dict__["predictors"] = tuple(placed(tensor, device) for tensor in self.predictors)
        moved.__dict__["hosted"] = self.hosted
        return moved

    @classmethod
    def from_sequences(
        cls,
        sequences: Sequence[Sequence[int]],
        device: torch.device | str = "cpu",
        *,
        masks: Sequence[Sequence[bool]] | None = None,
        keep_last: bool = False,
    ) -> Packed:
        """Pack whole sequences; target i is token i + 1 of its sequence, where the mask of that token is set.

        The last token predicts nothing and is not computed, unless `keep_last` (then `.last` finds it).
        """
        builder = _Builder(keep_last)
        for index, tokens in enumerate(sequences):
            mask = None if masks is None else masks[index]
            if mask is not None and len(mask) != len(tokens):
                raise InputError(f"sequence {index} has {len(tokens)} tokens but its mask has {len(mask)}")
            builder.add_sequence(tokens, mask)
        return builder.build(device)

    @classmethod
    def from_groups(
        cls,
        prompts: Sequence[Sequence[int]],
        responses: Sequence[Sequence[Sequence[int]]],
        device: torch.device | str = "cpu",
        *,
        masks: Sequence[Sequence[Sequence[bool]]] | None = None,
        keep_last: bool = False,
    ) -> Packed:
        """Pack prompts with their responses; each prompt is computed once.

        Targets are all response tokens, or those whose mask is set; tokens after the last target are not computed.
        """
        if len(prompts) != len(responses):
            raise InputError(f"{len(prompts)} prompts but responses for {len(responses)}")
        builder = _Builder(keep_last)
        for index, (prompt, group) in enumerate(zip(prompts, responses, strict=True)):
            builder.add_group(prompt, group, None if masks is None else masks[index])
        return builder.build(device)


class _Builder:
    """Lays tokens end to end in plain lists; tensors are made once at the end."""

    def __init__(self, keep_last: bool) -> None:
        self.keep_last = keep_last
        self.tokens: list[int] = []
        self.positions: list[Iterable[int]] = []
        self.predict: list[Iterable[int]] = []
        self.targets: list[Iterable[int]] = []
        self.counts: list[int] = []
        self.last: list[int] = []
        self.own: list[Iterable[int]] = []
        self.segments: list[Segment] = []

    def _lay(self, tokens: Sequence[int], start: int, prefix: Segment | None) -> int:
        """Append a segment whose first token has position `start`; return its index in the pack."""
        at = len(self.tokens)
        if tokens:
            self.tokens.extend(tokens)
            self.positions.append(range(start, start + len(tokens)))
            self.segments.append(Segment(at, len(tokens), *((prefix.start, prefix.length) if prefix else (0, 0))))
        return at

    def add_sequence(self, tokens: Sequence[int], mask: Sequence[bool] | None) -> None:
        if len(tokens) == 0:
            raise InputError(f"sequence {len(self.counts)} is empty")
        at = self._lay(tokens if self.keep_last else tokens[:-1], 0, None)
        if mask is None:
            self.predict.append(range(at, at + len(tokens) - 1))
            self.targets.append(tokens[1:])
            self.own.append(range(at + 1, at + len(tokens)))
            self.counts.append(len(tokens) - 1)
        else:
            chosen = [i for i in range(1, len(tokens)) if mask[i]]
            self.predict.append([at + i - 1 for i in chosen])
            self.own.append([at + i for i in chosen])
            self.targets.append([tokens[i] for i in chosen])
            self.counts.append(len(chosen))
        self.last.append(at + len(tokens) - 1)

    def add_group(
        self, prompt: Sequence[int], group: Sequence[Sequence[int]], masks: Sequence[Sequence[bool]] | None
    ) -> None:
        if len(prompt) == 0:
            raise InputError("a prompt is empty; give it at least a beginning-of-text token")
        start = self._lay(prompt, 0, None)
        shared = Segment(start, len(prompt))
        end = start + len(prompt) - 1
        for index, response in enumerate(group):
            if masks is not None:
                self._add_masked(response, masks[index], shared)
                continue
            at = self._lay(response if self.keep_last else response[:-1], len(prompt), shared)
            if response:
                self.predict.append(chain((end,), range(at, at + len(response) - 1)))
                self.targets.append(response)
                self.own.append(range(at, at + len(response)))
            self.counts.append(len(response))
            self.last.append(at + len(response) - 1 if response else end)

    def _add_masked(self, response: Sequence[int], mask: Sequence[bool], prompt: Segment) -> None:
        if len(mask) != len(response):
            raise InputError(f"a response has {len(response)} tokens but its mask has {len(mask)}")
        chosen = [place for place, own in enumerate(mask) if own]
        computed = len(response) if self.keep_last else max(chosen, default=0)
        at, end = self._lay(response[:computed], prompt.length, prompt), prompt.start + prompt.length - 1
        self.predict.append([at + place - 1 if place else end for place in chosen])
        self.own.append([at + place for place in chosen])
        self.targets.append([response[place] for place in chosen])
        self.counts.append(len(chosen))
        self.last.append(at + len(response) - 1 if response else end)

    def build(self, device: torch.device | str) -> Packed:
        if not self.tokens:
            raise InputError("nothing to compute: no sequence has two tokens")
        counts = torch.tensor(self.counts, dtype=torch.long)
        packed = Packed(
            tokens=torch.tensor(self.tokens, dtype=torch.long),
            positions=_flat(self.positions),
            predict=_flat(self.predict),
            targets=_flat(self.targets),
            sequence=torch.repeat_interleave(counts),
            num_sequences=len(self.counts),
            segments=tuple(self.segments),
            last=torch.tensor(self.last, dtype=torch.long) if self.keep_last else None,
            own=_flat(self.own) if self.keep_last else None,
        )
        return packed if torch.device(device).type == "cpu" else packed.to(device)


def _flat(parts: Iterable[Iterable[int]]) -> Tensor:
    return torch.tensor(list(chain.from_iterable(parts)), dtype=torch.long)
