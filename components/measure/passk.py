"""pass@k without bias, for all k up to the samples drawn (Chen et al. 2021, section 2.1, eq. 1).

Shapes: P prompts, K values of k.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from components.contract.errors import InputError
from components.measure.intervals import Floats


def pass_at_k(num_samples: int, num_right: int, k: int) -> float:
    """Return the chance that at least one of k samples, drawn without replacement, is right.

    1 - C(n - c, k) / C(n, k), as the product of 1 - k / i over i in (n - c, n], which neither overflows nor cancels.
    Raises InputError unless 0 <= num_right <= num_samples and 1 <= k <= num_samples.
    """
    if not 1 <= k <= num_samples:
        raise InputError(f"pass@{k} cannot be estimated from {num_samples} samples; k is from 1 to the samples drawn")
    return float(pass_at_k_values([num_samples], [num_right], [k])[0, 0])


def pass_at_k_values(num_samples: ArrayLike, num_right: ArrayLike, ks: Sequence[int]) -> Floats:
    """Return [P, K] pass@k of prompts with `num_samples` [P] verified samples, `num_right` [P] of them right.

    NaN where a prompt has fewer than k samples: its pass@k cannot be estimated without bias.
    """
    samples, right = np.asarray(num_samples, dtype=np.int64), np.asarray(num_right, dtype=np.int64)
    wanted = np.asarray(ks, dtype=np.int64)
    if ((right < 0) | (right > samples)).any():
        raise InputError("pass@k: the number of right samples must lie between 0 and the number of samples")
    if (wanted < 1).any():
        raise InputError(f"pass@k: k must be at least 1, not {int(wanted.min())}")
    values = np.full((len(samples), len(wanted)), np.nan)
    for count in np.unique(samples):
        rows = np.flatnonzero(samples == count)
        values[rows] = 1.0 - _miss_chances(int(count), right[rows], wanted)
    return np.where(wanted[None, :] <= samples[:, None], values, np.nan)


def _miss_chances(num_samples: int, num_right: np.ndarray, ks: np.ndarray) -> Floats:
    """Return [P, K]: the chance that none of k of `num_samples` draws is right, by recursion over the right ones."""
    chances = np.empty((len(num_right), len(ks)))
    miss = np.ones(len(ks))
    for right in range(int(num_right.max()) + 1):
        if right:
            # one more right sample: k draws also avoid this one; 0 once fewer than k wrong samples are left
            miss = miss * np.maximum(0.0, 1.0 - ks / (num_samples - right + 1))
        chances[num_right == right] = miss
    return chances
