"""The logs of a work's pods, each line with its node's number: as they arrive, or what is new at each look."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Any, Protocol

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
Show = Callable[[str], object]


class Logs(Protocol):
    """The logs of a work's pods."""

    refused: bool
    """Whether a rank refused the job."""

    def follow(self, pod: dict[str, Any]) -> None:
        """Show a pod's log, once its container has one."""
        ...

    def finish(self) -> None:
        """Wait briefly for the last lines, and show no more."""
        ...


class _PodLog:
    """How far a pod's log was shown; a log goes on from a whole second, so that some lines are told again."""

    def __init__(self, pod: dict[str, Any], since: str | None = None) -> None:
        node = pod["metadata"].get("labels", {}).get(INDEX)
        self.mark = f"[node {node}] " if node is not None else ""
        self.name, self.container = pod["metadata"]["name"], main_container(pod)
        self.since = since
        self._seen: set[tuple[str, str]] = set()

    def fresh(self, lines: Iterator[tuple[str, str]]) -> Iterator[str]:
        """Yield the lines that were not there before."""
        for moment, line in lines:
            if (moment, line) in self._seen:
                continue
            self._seen = {item for item in self._seen if item[0][:19] == moment[:19]} | {(moment, line)}
            self.since = moment
            yield line


class _Shown:
    """Shows lines, and notes what they say of a refusal."""

    def __init__(self, show: Show) -> None:
        self._show, self._one = show, Lock()
        self.refused = False

    def line(self, mark: str, line: str) -> None:
        with self._one:
            self._show(visible(f"{mark}{line}"))
            self.refused = self.refused or _REFUSED.search(line) is not None


class LiveLogs(_Shown):
    """Follows each pod in its own thread; a broken connection resumes where it was."""

    def __init__(self, cluster: Cluster, namespace: str, show: Show) -> None:
        super().__init__(show)
        self._cluster, self._namespace = cluster, namespace
        self._threads: dict[str, Thread] = {}
        self._closed = Event()

    def follow(self, pod: dict[str, Any]) -> None:
        """Follow a pod's log from its beginning, once its container has one."""
        name = pod["metadata"]["name"]
        if _has_log(pod) and name not in self._threads:
            self._threads[name] = Thread(target=self._relay, args=(_PodLog(pod),), daemon=True)
            self._threads[name].start()

    def finish(self) -> None:
        """Wait briefly for the last lines, and show no more."""
        deadline = time.monotonic() + REST_SECONDS
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        self.close()

    def close(self) -> None:
        """Show no more."""
        self._closed.set()

    def _relay(self, pod: _PodLog) -> None:
        while not self._closed.is_set():
            try:
                for line in pod.fresh(self._cluster.log(self._namespace, pod.name, pod.container, pod.since)):
                    if self._closed.is_set():
                        return
                    self.line(pod.mark, line)
                return
            except ClusterUnavailable:
                self._closed.wait(AGAIN_SECONDS)
            except Missing:  # its pod is gone
                return


class ReadLogs(_Shown):
    """Reads what is new of each pod's log when it is asked to: for many stages in one process."""

    def __init__(self, cluster: Cluster, namespace: str, show: Show, since: str | None = None) -> None:
        """`since` is when somebody else showed them last."""
        super().__init__(show)
        self._cluster, self._namespace, self._since = cluster, namespace, since
        self._pods: dict[str, _PodLog] = {}

    def follow(self, pod: dict[str, Any]) -> None:
        """Show what is new in a pod's log; one that cannot be read now is read the next time."""
        if not _has_log(pod):
            return
        known = self._pods.setdefault(pod["metadata"]["name"], _PodLog(pod, self._since))
        with suppress(ClusterUnavailable, Missing):
            lines = self._cluster.log(self._namespace, known.name, known.container, known.since, follow=False)
            for line in known.fresh(lines):
                self.line(known.mark, line)

    def finish(self) -> None:
        """Do nothing: what is there was shown."""


def _has_log(pod: dict[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") not in (None, "Pending")
