"""Demonstrations that the stage trains on: which rows can be used, and which of their examples fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from components.contract.context import StageContext
from components.contract.errors import InputError
from components.modeling.models.policy import Policy
from components.modeling.supervised.examples import Example
from components.modeling.supervised.usable import problem_of
from components.modeling.text.overlong import Limit, sort_overlong
from components.modeling.text.prompting import Encoded
from components.tasks.rows import iter_rows

if TYPE_CHECKING:
    from components.sft.params import SftParams


@dataclass(frozen=True)
class Demonstrations:
    """Rows of an input that can be trained on."""

    rows: list[dict[str, Any]]
    names: list[str]
    """Of each row its file and line."""
    num_bad: int

    def metrics(self) -> dict[str, float]:
        """Return how many rows were left out, where there are any."""
        return {"num_bad": float(self.num_bad)} if self.num_bad else {}


def read_demonstrations(ctx: StageContext[SftParams], policy: Policy, port: str) -> Demonstrations:
    """Return the usable rows of an input; others are refused with file and line, or left out and counted (bad_rows)."""
    found = [place for artifact in ctx.inputs(port) for place in iter_rows(artifact.path)]
    if policy.tokenizer is None:
        raise InputError("the model has no tokenizer; put its tokenizer.json beside its weights")
    problems = [problem_of(policy.tokenizer, policy.ends, row) for _, row in found]
    first = next((f"{where}: {problem}" for (where, _), problem in zip(found, problems, strict=True) if problem), None)
    usable = [place for place, problem in zip(found, problems, strict=True) if problem is None]
    num_bad = len(found) - len(usable)
    if first is not None:
        if ctx.params.bad_rows == "refuse":
            raise InputError(f"{first} (bad_rows: drop leaves such rows out; here {num_bad} of {len(found)})")
        if not usable:
            raise InputError(f"none of {len(found)} rows can be trained on; the first, {first}")
        ctx.tell(f"{num_bad} of {len(found)} demonstrations are left out; the first, {first}")
    return Demonstrations([row for _, row in usable], [where for where, _ in usable], num_bad)


def fitting_examples(
    ctx: StageContext[SftParams], examples: Sequence[Example], names: Sequence[str], limit: Limit, what: str
) -> tuple[list[Example], Mapping[str, float]]:
    """Return the examples within a limit, cut ones included, and the counts of the others."""
    sort = sort_overlong(
        [example.longest for example in examples],
        limit,
        ctx.params.overlong,
        ctx,
        names=names.__getitem__,
        what=what,
        cuttable=lambda index: cut_left(examples[index], limit.tokens) is not None,
    )
    fitting = [cut_left(examples[index], limit.tokens) if index in sort.cut else examples[index] for index in sort.kept]
    return [example for example in fitting if example is not None], sort.metrics()


def cut_left(example: Example, room: int) -> Example | None:
    """Return the last `room` tokens of an example, with at least one before its last turn; None if that is longer.

    A turn that loses its beginning is context. With a teacher, both readings must keep all their targets.
    """
    cut = _cut(Encoded(list(example.tokens), list(example.loss_mask)), room)
    if cut is None or example.taught is None:
        return None if cut is None else replace(example, tokens=cut.tokens, loss_mask=cut.loss_mask)
    taught = _cut(example.taught, room)
    wanted = sum(example.loss_mask)
    if taught is None or sum(cut.loss_mask) != wanted or sum(taught.loss_mask) != wanted:
        return None
    return replace(example, tokens=cut.tokens, loss_mask=cut.loss_mask, taught=taught)


def _cut(encoded: Encoded, room: int) -> Encoded | None:
    tokens, mask = encoded
    if len(tokens) <= room:
        return encoded
    start, last = len(tokens) - room, len(mask) - 1
    while last >= 0 and not mask[last]:
        last -= 1
    while last > 0 and mask[last - 1]:
        last -= 1
    if last <= start:
        return None
    left = mask[start:]
    if left[0]:
        end = left.index(False)
        left = [False] * end + left[end:]
    return Encoded(tokens[start:], left)
