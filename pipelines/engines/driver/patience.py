"""How long a driver asks a Kubernetes that does not answer; the nodes keep working meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from components.contract.terminal import visible_line
from pipelines.engines.driver.api import ClusterUnavailable, LoginRefused

AWAY_SECONDS = 3600.0
"""How long Kubernetes may be unreachable."""
AGAIN_SECONDS = 5.0
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Clock:
    """The time, and how to let it pass."""

    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


class Patience:
    """Asks until Kubernetes answers."""

    def __init__(self, clock: Clock, tell: Callable[[str], object]) -> None:
        """`tell` gets why nothing is known at the moment."""
        self._clock, self._tell = clock, tell
        self._since: float | None = None

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """Return the answer; raise ClusterUnavailable if there has been none for too long."""
        while True:
            try:
                answer = question()
            except ClusterUnavailable as error:
                self.missed(error)
                self._clock.sleep(AGAIN_SECONDS)
                continue
            self.answered()
            return answer

    def missed(self, error: ClusterUnavailable) -> None:
        """Tell that there was no answer; raise the error if there has been none for too long."""
        now = self._clock.now()
        self._since = now if self._since is None else self._since
        if now - self._since > AWAY_SECONDS:
            raise error
        said = str(error) if isinstance(error, LoginRefused) else f"Kubernetes does not answer: {error}"
        self._tell(visible_line(said))

    def answered(self) -> None:
        """Note that there was an answer."""
        self._since = None
