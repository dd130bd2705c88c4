"""A notebook's kernel as a person's: cells go in, what they show comes out, and it can be interrupted."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LIMIT_SECONDS = 300


@dataclass
class Cell:
    """What one cell showed."""

    streams: dict[str, str] = field(default_factory=dict)
    shown: list[dict[str, str]] = field(default_factory=list)
    """MIME type -> content of each thing that was displayed, or displayed anew in the place of another."""
    error: tuple[str, str, str] | None = None
    """Name, message and what a notebook shows of it."""

    @property
    def html(self) -> str:
        """The last page that it showed."""
        return self.shown[-1]["text/html"]


class Kernel:
    """A running kernel."""

    def __init__(self, manager: Any, client: Any) -> None:
        self._manager, self._client = manager, client

    def run(self, code: str, *, interrupt_at: Path | None = None) -> Cell:
        """Execute a cell; interrupt it, as the stop button does, as soon as a file is there."""
        cell, over = Cell(), threading.Event()

        def take(message: dict[str, Any]) -> None:
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                cell.streams[content["name"]] = cell.streams.get(content["name"], "") + content["text"]
            elif kind in ("display_data", "update_display_data", "execute_result"):
                cell.shown.append(content["data"])
            elif kind == "error":
                cell.error = content["ename"], content["evalue"], "\n".join(content["traceback"])

        def stop() -> None:
            while not over.is_set() and interrupt_at is not None:
                if interrupt_at.exists():
                    self._manager.interrupt_kernel()
                    return
                time.sleep(0.05)

        watcher = threading.Thread(target=stop)
        watcher.start()
        try:
            self._client.execute_interactive(code, output_hook=take, allow_stdin=False, timeout=LIMIT_SECONDS)
        finally:
            over.set()
            watcher.join()
        return cell


def kernel_environment(folder: Path, **variables: str) -> dict[str, str]:
    """Return the variables of a kernel that runs this tree and keeps its own files in a folder."""
    own = {name: str(folder / name.lower()) for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR")}
    path = os.pathsep.join(
        [str(ROOT), str(ROOT / "pipelines/client/src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    return {**os.environ, **own, "PYTHONPATH": path, "POSTTRAIN_LINEAGE": "later", **variables}


@contextmanager
def running_kernel(folder: Path, **variables: str) -> Iterator[Kernel]:
    """Start a kernel in a folder, and end it."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(cwd=str(folder), env=kernel_environment(folder, **variables))
    try:
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
