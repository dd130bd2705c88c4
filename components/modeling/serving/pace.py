"""Rate limits: when the next request may begin, given the requests of the minute before it."""

from __future__ import annotations

from collections import deque

MINUTE = 60.0


class Pace:
    """A sliding minute of requests and their estimated tokens."""

    def __init__(self, requests_per_minute: float | None, tokens_per_minute: float | None) -> None:
        self._limits = (requests_per_minute, tokens_per_minute)
        self._begun: deque[tuple[float, float]] = deque()
        self._last = 0.0

    def reserve(self, tokens: float, now: float) -> float:
        """Return when a request may begin, not before `now`, and count it as begun then.

        A request of more tokens than the limit per minute waits for a minute without any other.
        """
        if self._limits == (None, None):
            return now
        at = max(now, self._last)
        while True:
            while self._begun and self._begun[0][0] <= at - MINUTE:
                self._begun.popleft()
            if not self._begun or self._fits(tokens):
                break
            at = self._begun[0][0] + MINUTE
        self._begun.append((at, tokens))
        self._last = at
        return at

    def _fits(self, tokens: float) -> bool:
        requests, most = self._limits
        return (requests is None or len(self._begun) + 1 <= requests) and (
            most is None or sum(count for _, count in self._begun) + tokens <= most
        )
