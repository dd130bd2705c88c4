"""The task of a part of a run that is too large for one pipeline: starts the part's pipeline, follows it to its end.

python -m pipelines.engines.kubeflow.part --store URI --run RUN --kubeflow-run ID --part N/OF --kubeflow URL ...

The part's run is one of Kubeflow, beside that of the whole. A task that starts again goes on with the same one, which
then tries again what failed; a whole run that is stopped or deleted stops it.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from components.contract.errors import InputError, PosttrainError, StageFailed
from components.contract.terminal import print_error, visible_line
from components.runtime.job.process import FAILED, REFUSED
from components.runtime.store import Store, open_store
from pipelines.engines.driver.patience import Clock
from pipelines.engines.kubeflow.client.account import Account
from pipelines.engines.kubeflow.client.api import FINAL, Client
from pipelines.engines.kubeflow.client.rest import KubeflowUnavailable, NotFound, NotNow, Refused
from pipelines.engines.kubeflow.compiler.parts import unpack
from pipelines.engines.kubeflow.names import RUN_ID, STORE, part_key

POLL_SECONDS = 5.0
FIRST_SECONDS, AWAY_SECONDS = 120.0, 3600.0
"""How long Kubeflow may be away, or refuse this pod's token: at first, and while a part runs."""
SUBMIT_SECONDS = 120.0
"""How long another task of this part gets to start it."""
STOPPING, STOP_POLL_SECONDS, STOP_POLLS = ("CANCELING", *FINAL), 2.0, 5
"""States of a run that ends, and how often they are looked for when this pod has to end: a deleted run takes a moment
to be gone, and pods have half a minute."""
TERMINATED = 128 + signal.SIGTERM
_Found = TypeVar("_Found")


class Stopped(BaseException):
    """This pod has to end: its run is stopped, or its node is needed for something else."""


@dataclass(frozen=True)
class Part:
    """One part of one run."""

    store: Store
    run_id: str
    whole: str
    """Kubeflow's id of the run of the whole."""
    number: int
    count: int
    pipeline: str
    client: Client
    clock: Clock = field(default_factory=Clock)

    @property
    def name(self) -> str:
        """Return what people call it."""
        return f"part {self.number} of {self.count}"

    @property
    def words(self) -> str:
        """Return the description of its run in Kubeflow, by which it is found before the store knows it."""
        return f"posttrain run {self.run_id}, {self.name}, store {self.store.uri}"

    def carry_out(self) -> None:
        """Start the part's run, or go on with it, and wait for its end; raise StageFailed unless it succeeds."""
        try:
            run = self._patiently(self._begun, FIRST_SECONDS)
            print(visible_line(f"{self.name}: Kubeflow's run {run}"), flush=True)
            while not (state := self._patiently(lambda: self.client.state(run), AWAY_SECONDS)).final:
                self.clock.sleep(POLL_SECONDS)
        except Stopped:
            self._stop_with_the_whole()
            raise
        except NotFound:
            raise StageFailed(f"{self.name}: somebody has deleted its run in Kubeflow") from None
        if state.state not in ("SUCCEEDED", "SKIPPED"):
            said = f": {state.error}" if state.error else ""
            raise StageFailed(f"{self.name}: Kubeflow's run {run} is {state.state}{said}")

    def _begun(self) -> str:
        """Return Kubeflow's id of the part's run, which goes on now or has succeeded."""
        with self.store.lock(f"part-{self.whole}-{self.number}", wait_seconds=SUBMIT_SECONDS):
            whole = self.client.run(self.whole)
            known = self._known(whole)
            run = self._going(known) if known else None
            if run is None:
                arguments = {RUN_ID: self.run_id, STORE: self.store.uri}
                name = f"{self.run_id} {self.name}"[:128]
                run = self.client.submit_beside(whole, self.pipeline, arguments, name=name, words=self.words)
            self.store.put(part_key(self.whole, self.number), {"run_id": run}, overwrite=True)
            return run

    def _known(self, whole: dict[str, Any]) -> str | None:
        entry = self.store.get(part_key(self.whole, self.number)) or {}
        known: str | None = entry.get("run_id")
        return known or self.client.going_beside(whole["experiment_id"], self.words)

    def _going(self, run: str) -> str | None:
        """Return a run that was known before once it goes on; None if it cannot."""
        try:
            while (state := self.client.state(run)).state == "CANCELING":
                self.clock.sleep(POLL_SECONDS)
            if state.final and state.state not in ("SUCCEEDED", "SKIPPED"):
                self.client.retry(run)
        except (NotFound, NotNow):
            return None
        return run

    def _stop_with_the_whole(self) -> None:
        """Stop the part's run if the whole one is being stopped or is gone; another pod goes on with it otherwise."""
        with suppress(PosttrainError):
            for _ in range(STOP_POLLS):
                try:
                    whole = self.client.run(self.whole)
                except NotFound:
                    self._stop((self.store.get(part_key(self.whole, self.number)) or {}).get("run_id"))
                    return
                if whole.get("state") in STOPPING:
                    self._stop(self._known(whole))
                    return
                self.clock.sleep(STOP_POLL_SECONDS)

    def _stop(self, run: str | None) -> None:
        if run is not None:
            self.client.terminate(run)
            print(visible_line(f"{self.name}: stopping Kubeflow's run {run}"), flush=True)

    def _patiently(self, call: Callable[[], _Found], seconds: float) -> _Found:
        """Return what `call` returns, when Kubeflow answers; tokens are renewed while this waits."""
        since: float | None = None
        while True:
            try:
                return call()
            except (KubeflowUnavailable, Refused) as error:
                if since is None:
                    since = self.clock.now()
                    print(visible_line(f"{self.name}: asking again for up to {seconds:.0f} s: {error}"), flush=True)
                if self.clock.now() - since > seconds:
                    raise
                self.clock.sleep(POLL_SECONDS)


def _stop_now(number: int, frame: Any) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped


def main() -> int:
    """Carry out one part; the exit code is 1 if it failed."""
    parser = argparse.ArgumentParser(description="Run a part of a run.")
    for name in ("store", "run", "kubeflow-run", "kubeflow", "pipeline"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--part", required=True, metavar="N/OF")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop_now)
    number, _, count = arguments.part.partition("/")
    client = Client(Account.inside(arguments.kubeflow))
    try:
        store, pipeline = open_store(arguments.store), unpack(arguments.pipeline)
        Part(store, arguments.run, arguments.kubeflow_run, int(number), int(count), pipeline, client).carry_out()
    except Stopped:
        return TERMINATED
    except PosttrainError as error:
        print_error(error)
        return REFUSED if isinstance(error, InputError) else FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
