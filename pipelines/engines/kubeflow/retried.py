"""Whether Kubeflow itself tries a task again, such as one whose pod was lost, in contrast to a person who does."""

from __future__ import annotations

import os
from collections.abc import Mapping

INDEX = "KFP_RETRY_INDEX"
"""Variable of every container of Kubeflow 2.17 and later: 0 in the first try, and after a person's retry of the run."""


def retried(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether this container is a retry of Kubeflow's own."""
    text = environ.get(INDEX, "")
    return text.isdecimal() and int(text) > 0
