"""The logs of a work's pods, interleaved as they arrive, each line with its node's number."""

from __future__ import annotations

import re
import sys
import time
from threading import Event, Lock, Thread
from typing import Any

from components.contract.terminal import visible
from pipelines.engines.driver.api import Cluster, ClusterUnavailable, Missing
from pipelines.engines.driver.causes import main_container

INDEX = "batch.kubernetes.io/job-completion-index"
"""Label by which Kubernetes numbers the pods of an Indexed Job."""
AGAIN_SECONDS = 2.0
REST_SECONDS = 20.0
"""How long the last lines may take to come after the work has ended."""
_REFUSED = re.compile(r"exitcode\s*:\s*2 \(pid")
"""torchrun's message that a rank refused its input; its own exit code is 1, whatever a rank's was."""


class Logs:
    """Follows each pod in its own thread; a broken connection resumes where it was."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._threads: dict[str, Thread] = {}
        self._closed = Event()
        self._print = Lock()
        self.last = ""
        """The last non-empty line of any node."""
        self.refused = False
        """Whether a rank refused the job."""

    def follow(self, pod: dict[str, Any]) -> None:
        """Follow a pod's log from its beginning, once its container has one."""
        name, started = pod["metadata"]["name"], pod.get("status", {}).get("phase") not in (None, "Pending")
        if started and name not in self._threads:
            node = pod["metadata"].get("labels", {}).get(INDEX)
            mark = f"[node {node}] " if node is not None else ""
            self._threads[name] = Thread(target=self._relay, args=(name, main_container(pod), mark), daemon=True)
            self._threads[name].start()

    def finish(self) -> None:
        """Wait briefly for the last lines."""
        deadline = time.monotonic() + REST_SECONDS
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """Show no more."""
        self._closed.set()

    def _relay(self, pod: str, container: str, mark: str) -> None:
        since: str | None = None
        seen: set[tuple[str, str]] = set()
        while not self._closed.is_set():
            try:
                for moment, line in self._cluster.log(self._namespace, pod, container, since):
                    if self._closed.is_set():
                        return
                    if (moment, line) in seen:  # told again: a log goes on from a whole second
                        continue
                    seen = {item for item in seen if item[0][:19] == moment[:19]} | {(moment, line)}
                    since = moment
                    self._show(mark, line)
                return
            except ClusterUnavailable:
                self._closed.wait(AGAIN_SECONDS)
            except Missing:  # its pod is gone
                return

    def _show(self, mark: str, line: str) -> None:
        with self._print:
            print(visible(f"{mark}{line}"), flush=True, file=sys.stdout)
            self.last = line if line.strip() else self.last
            self.refused = self.refused or _REFUSED.search(line) is not None
