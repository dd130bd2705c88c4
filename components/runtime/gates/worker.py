"""The gate's worker: imports Great Expectations once, then answers requests, one JSON object a line.

A request is {"port", "folder", "kind", "expectations", "report"}; its answer {"results": ...}, or {"refused": message}
where the input is wrong. Whatever libraries print goes to stderr.
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
    import great_expectations  # noqa: F401  now, while the stage works, and not at the first request

    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to one request."""
    from components.runtime.gates.checking import check_rows

    expectations = [Expectation.model_validate(item) for item in request["expectations"]]
    folder, report = Path(request["folder"]), Path(request["report"])
    try:
        return {"results": check_rows(request["port"], folder, request["kind"], expectations, report)}
    except InputError as error:
        return {"refused": str(error)}


def _die_with(parent: int) -> None:
    """End when the parent does, however it ends; stdin alone may be kept open by processes that it forked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    die_with_parent()
    if os.getppid() != parent:
        sys.exit("the parent has ended")


if __name__ == "__main__":
    main()
