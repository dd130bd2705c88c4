"""How many n-grams of a text are those of a reference: BLEU of one sentence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from components.contract.params import Params

Unit = Literal["words", "characters"]


class Overlap(Params):
    """Which n-grams are compared."""

    longest: int = Field(default=4, ge=1, le=20)
    """Largest n; all from 1 count the same. BLEU-4 is the usual one."""
    unit: Unit = "words"
    """words: what white space separates. characters: every character but white space, for texts without spaces."""

    def of(self, text: str, reference: str) -> float:
        """Return `sentence_bleu` of two texts."""
        return sentence_bleu(split(text, self.unit), split(reference, self.unit), self.longest)


def split(text: str, unit: Unit) -> list[str]:
    """Return the units of a text."""
    words = text.split()
    return words if unit == "words" else list("".join(words))


def sentence_bleu(given: Sequence[str], reference: Sequence[str], longest: int) -> float:
    """Return in [0, 1] the geometric mean of the clipped n-gram precisions, times the penalty of brevity.

    Orders of which `given` has no n-gram are left out; an order without a match counts 1 / (2^k total) at the kth such
    order. 0 where no unit is shared. The penalty is exp(1 - len(reference) / len(given)) of a shorter text.

    Source: Papineni et al. 2002, BLEU; effective order and exponential smoothing as in sacrebleu's sentence_bleu
    (Post 2018, arXiv:1804.08771).
    """
    if not set(given) & set(reference):
        return 0.0
    logs, halvings = [], 0
    for n in range(1, min(longest, len(given)) + 1):
        found, wanted = _ngrams(given, n), _ngrams(reference, n)
        matches, total = (found & wanted).total(), found.total()
        if not matches:
            halvings += 1
        logs.append(math.log(matches / total if matches else 1 / (2**halvings * total)))
    brevity = min(0.0, 1 - len(reference) / len(given))
    return math.exp(math.fsum(logs) / len(logs) + brevity)


def _ngrams(units: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(units[at : at + n]) for at in range(len(units) - n + 1))
