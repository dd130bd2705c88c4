"""The process behind components.tasks.isolation: reads requests from standard input, writes verdicts."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any, TextIO

from components.tasks import isolation
from components.tasks.item import Item
from components.tasks.verify import verify

MEMORY_BYTES = 4 << 30


def main() -> None:
    """Answer one JSON line for each JSON line until the input ends."""
    isolation.enter_worker()
    replies = os.fdopen(os.dup(1), "w", encoding="ascii")
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - what a scorer prints must not look like a reply
    os.dup2(sys.stdout.fileno(), 1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _reply(replies, {"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        # The default action of SIGALRM ends the process wherever it is, in C code as well.
        signal.setitimer(signal.ITIMER_REAL, request["seconds"])
        verdict = verify(Item.model_validate(request["item"]), request["response"])
        signal.setitimer(signal.ITIMER_REAL, 0)
        _reply(replies, {"outcome": verdict.outcome, "detail": verdict.detail})


def _reply(stream: TextIO, value: dict[str, Any]) -> None:
    stream.write(json.dumps(value) + "\n")
    stream.flush()


if __name__ == "__main__":
    main()
