"""What a stage was doing when an error was raised, by the innermost place of its traceback that tells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from components.contract.memory import Moment

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Work:
    """A kind of work with models."""

    words: str
    moment: Moment
    """When it is done, for estimates of memory."""


DRAWING = Work("while it drew responses", Moment.BETWEEN)
SCORING = Work("while it scored responses", Moment.BETWEEN)
TRAINING = Work("in a training pass", Moment.PASS)
SAVING = Work("while it saved or loaded a checkpoint", Moment.BETWEEN)

_PLACES = {
    "components/modeling/generation/scoring.py": SCORING,
    "components/rl/step/scoring.py": SCORING,
    "components/modeling/generation": DRAWING,
    "components/modeling/training/training_state.py": SAVING,
    "components/modeling/training": TRAINING,
    "components/modeling/supervised": TRAINING,
}


def work_behind(error: BaseException) -> Work | None:
    """Return what was being done when an error was raised; None if its traceback does not tell."""
    for path in reversed(list(_files(error))):
        for place, work in _PLACES.items():
            if path.is_relative_to(place):
                return work
    return None


def _files(error: BaseException) -> Iterator[Path]:
    """Yield the files of a traceback that are in this tree, the outermost first."""
    trace = error.__traceback__
    while trace is not None:
        path = Path(trace.tb_frame.f_code.co_filename)
        if path.is_relative_to(ROOT):
            yield path.relative_to(ROOT)
        trace = trace.tb_next
