"""One job in a process of its own: exit codes, signals and where its output goes.

    python -m components.runtime.job.process JOB.json
    python -m components.runtime.job.process --store URI --run RUN --stage STAGE

is what a container runs: with the job's file, or with the job's location in the store. The local engine forks into
`run_forked`. A job that trains on several processes of one node starts them itself; on several nodes, torchrun or
the DeepSpeed launcher starts this module on each, and the first rank is the launcher.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Timer
from typing import Any

from components.contract.errors import GateFailed, InputError, OperatorFailed, PosttrainError
from components.contract.job import Job
from components.contract.terminal import print_error
from components.runtime.alarms.words import event_lines
from components.runtime.gates.process import GATE_LIBRARY
from components.runtime.job.job_file import read_job
from components.runtime.job.launch import Launch
from components.runtime.job.progress import Progress, Sink, json_lines, text_lines
from components.runtime.job.ranks import check_place, follow, releasing
from components.runtime.job.rendezvous import RankPlace
from components.runtime.ledger.records import load_job
from components.runtime.store import open_store
from components.runtime.store.access import access_below, top_of, writing_below
from components.runtime.system.determinism import set_environment
from components.runtime.system.parent import die_with_parent

READY = "ready"
"""First event of a process that an engine watches: the stage's timeout counts from here."""
FAILED = 1
REFUSED = 2
"""A retry cannot help: bad input, or a gate that failed."""


def execute(job: Job, sink: Sink, *, log: str = "") -> int:
    """Run one job and return the process's exit code; a stage's traceback goes to stderr, which is its log.

    `log` says where that is, for messages.
    """
    limit_threads(job.resources.threads)
    place = RankPlace.of_environment()
    try:
        set_environment(job.resources)
        check_place(job, place)
        if place is not None and place.rank:
            return follow(job, place)
        with writing_below(top_of(job.store)), releasing(job, place):
            Launch(job, sink, gates_here=GATE_LIBRARY in sys.modules, log=log, own_process=True).run()
    except OperatorFailed as error:
        traceback.print_exception(error.raised or error)
        print_error(error)
        return REFUSED if error.edit else FAILED
    except (InputError, GateFailed) as error:
        print_error(error)
        return REFUSED
    except PosttrainError as error:
        traceback.print_exception(error.__cause__ or error)
        print_error(error)
        return FAILED
    return 0


def run_forked(job_json: str, events: Connection, log: str, environment: Mapping[str, str | None]) -> None:
    """Entry point of a forked job: output goes to the file `log`, events to `events`; dies with its parent.

    `environment` holds the variables to set, and None for those to remove.
    """
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the engine handles Ctrl-C, once
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    job = Job.model_validate_json(job_json)
    os.umask(access_below(top_of(job.store)).umask)
    with Path(log).open("a", buffering=1) as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
        sys.stdout = sys.stderr = stream

        def sink(event: dict[str, Any]) -> None:
            if event["event"] == "alarm":  # the log has no other events, and is where a person looks for the cause
                print(*event_lines(event), sep="\n", flush=True)
            events.send_bytes(json.dumps(event).encode())

        Progress(job.stage, sink).send(READY)
        code = execute(job, sink, log=log)
    events.close()
    sys.exit(code)


def limit_threads(threads: int) -> None:
    """Give numeric libraries the pool's cores: results repeat only at a fixed number, one by default."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    torch = sys.modules.get("torch")  # already imported in a forked job, where it no longer reads the variable
    if torch is not None:
        torch.set_num_threads(threads)


def _end_in_time(job: Job, sink: Sink) -> None:
    """End this process when the job's timeout passes, however busy it is."""
    if job.timeout_seconds is None:
        return

    def end() -> None:
        message = f"took longer than its timeout of {job.timeout_seconds:g} s"
        try:
            Launch(job, sink).record_death(message)
            print_error(f"stage {job.stage!r}: {message}")
        finally:
            os._exit(FAILED)

    timer = Timer(job.timeout_seconds, end)
    timer.daemon = True
    timer.start()


def main() -> int:
    """Run one job, named on the command line; events go to stdout, one JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", type=Path, nargs="?", help="file with the job description (JSON), or - for stdin")
    parser.add_argument("--store", help="store URI that holds the job")
    parser.add_argument("--run", "--run-id", help="run id; under torchrun, which has a --run-path, say --run-id")
    parser.add_argument("--stage", help="stage of the run")
    parser.add_argument(
        "--alone", action="store_true", help="no engine watches: keep the job's timeout, log for people"
    )
    parser.add_argument("--keep-timeout", action="store_true", help="end when the job has had its time")
    # the DeepSpeed launcher passes it to every process; it is in the environment, too
    parser.add_argument("--local_rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--parent", type=int, metavar="PID", help="end when this process, the parent, does")
    arguments = parser.parse_args()
    by_key = [arguments.store, arguments.run, arguments.stage]
    if (arguments.job is None) != all(by_key) or (arguments.job is not None and any(by_key)):
        parser.error("give either a job file, or --store, --run and --stage")
    if arguments.parent is not None:
        die_with_parent()
        if os.getppid() != arguments.parent:  # the parent ended before it could be watched
            return FAILED
    try:
        job = _stored(*by_key) if arguments.job is None else read_job(str(arguments.job))
    except PosttrainError as error:
        print_error(error)
        return REFUSED if isinstance(error, InputError) else FAILED
    sink = text_lines() if arguments.alone else json_lines()
    if arguments.alone or arguments.keep_timeout:
        _end_in_time(job, sink)
    if not arguments.alone and RankPlace.of_environment() is None:
        Progress(job.stage, sink).send(READY)
    return execute(job, sink)


def _stored(uri: str, run_id: str, stage: str) -> Job:
    job = load_job(open_store(uri), run_id, stage)
    if job is None:
        raise InputError(f"store {uri} holds no job for stage {stage!r} of run {run_id!r}")
    return job


if __name__ == "__main__":
    sys.exit(main())
