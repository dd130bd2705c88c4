"""What a judge should say: the request that it is asked, with the verdict that a verifier has of the response."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from components.contract.errors import InputError
from components.judges.config import PointwiseConfig
from components.judges.fencing import Request
from components.judges.judge import Case, PointwiseJudge


@dataclass(frozen=True)
class Lesson:
    """A request and its right answer, as texts to train a judge on."""

    request: str
    said: str
    """All that the judge should write: the form in which it is read, and the verdict."""
    verdict: str
    """The verdict alone: a label, or a number of the scale."""


class _Unasked:
    """In the place of a judge's model: its control marks are those that every request breaks anyway."""

    name = "unasked"

    def write(self, *_: object) -> list[list[None]]:
        raise AssertionError("nobody is asked for a lesson")

    score = write


class Lessons(PointwiseJudge):
    """Writes lessons for a judge that will be asked with a config."""

    def __init__(self, config: PointwiseConfig) -> None:
        super().__init__(_Unasked(), config)  # type: ignore[arg-type]

    def request(self, case: Case, response: str) -> Request:
        """Return what the judge is asked, exactly as reward `judge` and the diagnostics ask it."""
        return self._request(case, {"response": response})

    def lesson(self, case: Case, response: str, score: float) -> Lesson | None:
        """Return the lesson of a response of this worth; None where its answer could not be read as such.

        That is so where a response holds the verdict itself, and the mark has no nonce.
        """
        request, verdict = self.request(case, response), self.verdict(score)
        said = self.form(verdict, request)
        found = self.read(said, request)
        expected = self.worth(verdict)
        return None if found is None or abs(found - expected) > 1e-9 else Lesson(request.text, said, verdict)

    def verdict(self, score: float) -> str:
        """Return the label whose value is nearest to a score in [0, 1], or the whole number of the scale."""
        config = self.config
        if config.labels:
            return min(config.labels, key=lambda label: abs(config.labels[label] - score))
        lowest, highest = _whole(config)
        return f"{min(max(round(config.low + score * (config.high - config.low)), lowest), highest):d}"

    def read(self, said: str | None, request: Request) -> float | None:
        """Return the value that is read of a judge's text; None for one without a verdict."""
        if self.config.reading == "probability":
            return self.config.labels.get(said or "")
        return self._value(said, request).value

    def worth(self, verdict: str) -> float:
        """Return the value in [0, 1] of a verdict."""
        config = self.config
        if config.labels:
            return config.labels[verdict]
        return (float(verdict) - config.low) / (config.high - config.low)

    def form(self, verdict: str, request: Request) -> str:
        """Return a verdict in the form that is read."""
        config = self.config
        if config.reading == "probability" or (config.reading == "mark" and not config.mark):
            return verdict
        if config.reading == "mark":
            return f"{config.mark.replace('{nonce}', request.nonce)} {verdict}"
        signed = {"nonce": request.nonce} if config.signed else {}
        return json.dumps({**signed, "verdict": verdict if config.labels else int(verdict)})


def check_scale(config: PointwiseConfig) -> None:
    """Raise InputError for a scale on which right and wrong are not told apart."""
    if config.labels and len(set(config.labels.values())) < 2:
        raise InputError("judge: all labels are worth the same, so that no verdict can be taught")
    lowest, highest = _whole(config)
    if not config.labels and lowest >= highest:
        raise InputError(
            f"judge: whole numbers are taught, and there are no two between {config.low:g} and {config.high:g}"
        )


def _whole(config: PointwiseConfig) -> tuple[int, int]:
    """Return the first and the last whole number of a scale."""
    return math.ceil(config.low), math.floor(config.high)
