"""A step as a line of the journal, and its responses, each once.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from components.rl.batch.batch import FAILED, RIGHT, UNSCORED, WRONG, Batch
from components.rl.step.experience import Experience
from components.rl.step.reward_parts import concatenated

LETTERS = {RIGHT: "r", WRONG: "w", FAILED: "f", UNSCORED: "u"}
"""Outcomes of a line, one letter a row."""
as_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode  # one encoder: json.dumps makes one a call


def line_of(got: Experience, step: int, names: Sequence[str]) -> dict[str, Any]:
    """Return what a step drew and made of it; `names` are the digests of the rows of `got.seen`, `step` is from 1."""
    seen, learned = got.seen, got.batch
    line: dict[str, Any] = {
        "step": step,
        "settings": asdict(got.settings),
        "drawn": [list(draw) for draw in got.collector.draws],
        "prompts": [prompt.item.id for prompt in seen.prompts],
        "groups": torch.bincount(seen.group, minlength=seen.num_prompts).tolist(),
        "responses": list(names),
        "cut": (~seen.finished).nonzero().squeeze(1).tolist(),
        "outcomes": "".join(LETTERS[code] for code in seen.outcomes.tolist()),
        "rewards": _numbers(seen.rewards),
        "parts": {name: _numbers(part) for name, part in concatenated(got.collector.seen_parts).items()},
        "learned": _places(seen, names, learned),  # None: all, in their order
        "advantages": _numbers(learned.response_mean(learned.advantages)) if learned.num_responses else [],
        "digests": {
            "logprobs": digest(seen.old_logprobs, seen.behaviour_logprobs),
            "entropies": digest(seen.entropies),
            "batch": digest(
                learned.tokens,
                learned.advantages,
                learned.old_logprobs,
                learned.reference_logprobs,
                learned.values,
                *(learned.extras[name] for name in sorted(learned.extras)),
            ),
        },
    }
    if not seen.one_row_each:
        line["traces"] = seen.trace.tolist()
    return line


def responses_of(batch: Batch) -> Iterator[tuple[str, str]]:
    """Yield the digest and the JSON of every row: its tokens and text, and of a conversation who wrote what."""
    plain = bool(batch.learned.all()) and not bool(batch.author.any()) and not bool(batch.turn.any())
    ends = batch.lengths.cumsum(0).tolist()
    tokens, begin = batch.tokens.tolist(), 0
    for row, end in enumerate(ends):
        content: dict[str, Any] = {"text": batch.texts[row], "tokens": tokens[begin:end]}
        if not plain:
            content["spans"] = _spans(batch, begin, end)
        if batch.context is not None:
            content["context"] = list(batch.context[row])
        if batch.earlier_turns is not None:
            content["earlier"] = list(batch.earlier_turns[row])
        written = as_json(content)
        yield hashlib.blake2b(written.encode(), digest_size=8).hexdigest(), written
        begin = end


def digest(*values: Tensor) -> str:
    """Return a digest of the bits of tensors."""
    found = hashlib.blake2b(digest_size=8)
    for value in values:
        plain = value.detach().cpu().contiguous()
        found.update(f"{plain.dtype}{tuple(plain.shape)}".encode())
        found.update(plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return found.hexdigest()


def weights_digest(weights: Sequence[tuple[str, Tensor]]) -> str:
    """Return a digest of weights in one pass over them: the sum of each one's bits as integers, which has no order."""
    sums = [_as_integers(weight.detach()).sum(dtype=torch.int64) for _, weight in weights]
    return digest(torch.stack(sums)) if sums else ""


def _as_integers(weight: Tensor) -> Tensor:
    """Return a weight's bits as the widest integers that hold it whole, whose sum is the fastest."""
    size = weight.element_size()
    if weight.is_contiguous() and weight.numel() * size % 8 == 0:
        return weight.view(-1).view(torch.int64)
    return weight.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size])


def _spans(batch: Batch, begin: int, end: int) -> list[list[int]]:
    """Return [author, turn, whether it is learned, tokens] of each piece of a row."""
    marks = (batch.author[begin:end].tolist(), batch.turn[begin:end].tolist(), batch.learned[begin:end].long().tolist())
    return [[*mark, len(list(found))] for mark, found in groupby(zip(*marks, strict=True))]


def _places(seen: Batch, names: Sequence[str], learned: Batch) -> list[int] | None:
    """Return, for each learned row, its place among the rows of the step, -1 for one that is not of the step.

    None: they are the rows of the step, in their order.
    """
    whole = learned.around or learned
    if _same_rows(seen, whole):
        return None
    waiting: dict[tuple[str, str], list[int]] = {}
    for row, (group, name) in enumerate(zip(seen.group.tolist(), names, strict=True)):
        waiting.setdefault((seen.prompts[group].item.id, name), []).append(row)
    places = []
    for group, (name, _) in zip(whole.group.tolist(), responses_of(whole), strict=True):
        found = waiting.get((whole.prompts[group].item.id, name))
        places.append(found.pop(0) if found else -1)
    return places


def _same_rows(one: Batch, other: Batch) -> bool:
    return (
        [prompt.item.id for prompt in one.prompts] == [prompt.item.id for prompt in other.prompts]
        and torch.equal(one.group, other.group)
        and torch.equal(one.lengths, other.lengths)
        and torch.equal(one.tokens, other.tokens)
    )


def _numbers(values: Tensor) -> list[float | None]:
    """Return float32 values in as few digits as give their bits again; None for those that are not finite."""
    return [float(f"{value:.9g}") if math.isfinite(value) else None for value in values.tolist()]
