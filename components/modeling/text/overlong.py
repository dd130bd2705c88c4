"""What becomes of sequences that are longer than a model or a setting allows; free of torch and transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from components.contract.errors import InputError

Overlong = Literal["drop", "truncate_left", "refuse"]


class Teller(Protocol):
    """The part of StageContext that says what was left out."""

    def tell(self, text: str) -> None:
        """Show a line to people."""
        ...


@dataclass(frozen=True)
class Limit:
    """The most tokens of a sequence, and what sets it."""

    tokens: int
    why: str
    """Such as "max_tokens 1024"."""

    @classmethod
    def of_example(cls, max_tokens: int, positions: int) -> Limit:
        """Return the limit of what is trained on: the stage's or the model's, whichever is lower."""
        if max_tokens <= positions:
            return cls(max_tokens, f"max_tokens {max_tokens}")
        return cls(positions, f"the model's {positions} positions")

    @classmethod
    def of_prompt(cls, positions: int, max_new_tokens: int) -> Limit:
        """Return the limit of a prompt that is answered in up to `max_new_tokens`."""
        why = f"the model's {positions} positions with max_new_tokens {max_new_tokens}"
        return cls(positions - max_new_tokens, why)


@dataclass(frozen=True)
class Sorted:
    """Indices of sequences by what becomes of them, each in order."""

    kept: list[int]
    """Those that are used, cut ones included."""
    cut: frozenset[int]
    """Those that lose their first tokens."""
    dropped: list[int]

    def metrics(self, suffix: str = "") -> dict[str, float]:
        """Return the counts that are not 0."""
        counts = {f"num_overlong{suffix}": len(self.dropped), f"num_cut{suffix}": len(self.cut)}
        return {name: float(count) for name, count in counts.items() if count}


def sort_overlong(
    sizes: Sequence[int],
    limit: Limit,
    overlong: Overlong,
    teller: Teller,
    *,
    names: Callable[[int], str],
    what: str,
    cuttable: Callable[[int], bool] = lambda index: True,
) -> Sorted:
    """Sort sequences of `sizes` tokens by a limit, and tell how many do not fit, with the name of the first.

    Those that are not `cuttable` are dropped in the place of being cut. Raises a one-line InputError with `refuse`, and
    where there are some and none is left; `what` calls them, in the plural.
    """
    over = [index for index, size in enumerate(sizes) if size > limit.tokens]
    if not over:
        return Sorted(list(range(len(sizes))), frozenset(), [])
    first = f"{names(over[0])} has {sizes[over[0]]} tokens"
    room = f"{max(0, limit.tokens)} ({limit.why})"
    if overlong == "refuse":
        raise InputError(
            f"{first}, and at most {room} fit, as {len(over)} of {len(sizes)} {what} do not; shorten it, raise the "
            "limit, or set overlong: drop or truncate_left"
        )
    cut = frozenset(index for index in over if overlong == "truncate_left" and limit.tokens > 0 and cuttable(index))
    dropped = [index for index in over if index not in cut]
    if len(dropped) == len(sizes):
        raise InputError(f"none of {len(sizes)} {what} has at most {room} tokens; the first, {first}")
    does = {"cut on the left": len(cut), "left out": len(dropped)}
    done = " and ".join(f"{count} {word}" for word, count in does.items() if count)
    teller.tell(f"{len(over)} of {len(sizes)} {what} exceed {room} tokens: {done}; the first, {first}")
    left_out = set(dropped)
    return Sorted([index for index in range(len(sizes)) if index not in left_out], cut, dropped)
