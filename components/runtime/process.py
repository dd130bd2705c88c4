"""One job in a process of its own: exit codes, signals and where its output goes.

`python -m components.runtime.process JOB.json` is what a container runs; the local engine forks into `run_forked`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from components.contract.errors import GateFailed, InputError, PosttrainError
from components.contract.job import Job
from components.runtime.gates.process import GATE_LIBRARY
from components.runtime.launch import Launch
from components.runtime.parent import die_with_parent
from components.runtime.progress import Sink, json_lines

FAILED = 1
REFUSED = 2
"""A retry cannot help: bad input, or a gate that does not hold."""


def execute(job: Job, sink: Sink) -> int:
    """Run one job and return the process's exit code; a stage's traceback goes to stderr, which is its log."""
    _limit_threads(job.resources.threads)
    try:
        Launch(job, sink, gates_here=GATE_LIBRARY in sys.modules).run()
    except (InputError, GateFailed) as error:
        print(f"posttrain: {error}", file=sys.stderr)
        return REFUSED
    except PosttrainError as error:
        traceback.print_exception(error.__cause__ or error)
        print(f"posttrain: {error}", file=sys.stderr)
        return FAILED
    return 0


def run_forked(job_json: str, events: Connection, log: str, environment: dict[str, str]) -> None:
    """Entry of a forked job: output goes to the file `log`, events to `events`; dies with its parent."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the engine's to handle, once
    os.environ.update(environment)
    with Path(log).open("a", buffering=1) as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
        sys.stdout = sys.stderr = stream

        def sink(event: dict[str, Any]) -> None:
            events.send_bytes(json.dumps(event).encode())

        code = execute(Job.model_validate_json(job_json), sink)
    events.close()
    sys.exit(code)


def _limit_threads(threads: int) -> None:
    """Give numeric libraries the pool's cores: results are bit-exact only at a fixed number, one by default."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    torch = sys.modules.get("torch")  # already there in a forked job, which no longer reads the variable
    if torch is not None:
        torch.set_num_threads(threads)


def main() -> int:
    """Run the job that a JSON file describes; events go to stdout, one JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", type=Path, help="file with the job description (JSON), or - for standard input")
    path = parser.parse_args().job
    text = sys.stdin.read() if str(path) == "-" else path.read_text()
    return execute(Job.model_validate_json(text), json_lines())


if __name__ == "__main__":
    sys.exit(main())
