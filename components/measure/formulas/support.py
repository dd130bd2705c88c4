"""The four cells of empirical support, and the scores made of them.

Source: Wu et al. 2025, The Invisible Leash (arXiv:2507.14843). Shapes: P prompts, B weightings of them.
"""

from __future__ import annotations

import numpy as np

from components.measure.intervals import Floats

CELLS = ("preserved", "shrunk", "expanded", "out")
SCORES = ("srr", "ndr", "sds", "nscr")


def cells(theirs: Floats, ours: Floats) -> Floats:
    """Return [P, 4] from the chances [P] that k samples solve a prompt: solved by both, base only, ours only, none.

    With all samples as budget chances are 0 or 1 and cells are counts; with fewer, both sides are drawn independently.
    """
    return np.stack([theirs * ours, theirs * (1 - ours), (1 - theirs) * ours, (1 - theirs) * (1 - ours)], axis=1)


def scores(counts: Floats) -> Floats:
    """Return [B, 4] from counts of cells [B, 4], NaN where a score is undefined.

    srr, retention P / (P + S). ndr, discovery E / (P + E). sds, their harmonic mean. nscr, net change (E - S) /
    (P + E + S).
    """
    preserved, shrunk, expanded, _ = np.moveaxis(counts, 1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        retention = preserved / (preserved + shrunk)
        discovery = expanded / (preserved + expanded)
        both = retention + discovery
        dynamic = np.where(both > 0, 2 * retention * discovery / both, np.where(both == 0, 0.0, np.nan))
        change = (expanded - shrunk) / (preserved + expanded + shrunk)
    return np.stack([retention, discovery, dynamic, change], axis=1)
