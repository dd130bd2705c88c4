"""The gate's worker: imports Great Expectations once, then answers requests, one JSON object per line.

A request is {"port", "folder", "kind", "expectations", "report"}; its answer is {"results": ...}, or {"refused":
message} if the input is wrong. Output of libraries goes to stderr.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from components.contract.job import Expectation
from components.runtime.system.parent import die_with_parent


def main() -> None:
    """Serve until stdin ends; the argument is the parent's process id."""
    _die_with(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    import components.runtime.gates.library  # noqa: F401  now, while the stage runs, not at the first request

    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to one request."""
    import components.runtime.gates.library  # noqa: F401  before all that imports Great Expectations whole
    from components.runtime.gates.checking import check_rows

    expectations = [Expectation.model_validate(item) for item in request["expectations"]]
    folder, report = Path(request["folder"]), Path(request["report"])
    try:
        return {"results": check_rows(request["port"], folder, request["kind"], expectations, report)}
    except InputError as error:
        return {"refused": str(error)}


def _die_with(parent: int) -> None:
    """End when the parent does, however it ends; watching stdin is not enough, since forked processes may hold it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    die_with_parent()
    if os.getppid() != parent:
        sys.exit("the parent has ended")


if __name__ == "__main__":
    main()
