"""Which library multiplies float32 matrices on this process's CPU: what is in use, for the kernels and for the record.

Products of two libraries differ in their last digits, so a choice belongs to what makes bytes repeat.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

ONEDNN, MKL = "onednn", "mkl"


@dataclass(frozen=True)
class Products:
    """The libraries of the two kinds of work, which differ in the rows of a product."""

    sampling: str = ONEDNN
    """Decoding: weights prepared once for a few hundred rows at a time."""
    training: str = ONEDNN
    """All else: thousands of rows, weights as they are."""

    def record(self) -> dict[str, str]:
        """Return the choice for a stage's record."""
        return asdict(self)


DEFAULT = Products()
_state: dict[str, Products] = {}
_pinned: list[Products] = []


def in_use() -> Products:
    """Return the choice of this process; the default where none was made."""
    return _state.get("chosen", DEFAULT)


def was_chosen() -> bool:
    """Return whether this process has loaded a model for which a choice was made."""
    return "chosen" in _state


def use(products: Products) -> None:
    """Use these from now on."""
    _state["chosen"] = products


@contextmanager
def pinned(products: Products) -> Iterator[None]:
    """Use these inside, whatever would be chosen for this machine: the ones of a stage that is made again."""
    _pinned.append(products)
    use(products)
    try:
        yield
    finally:
        _pinned.pop()


def is_pinned() -> bool:
    """Return whether nothing is to be chosen."""
    return bool(_pinned)
