"""The engine's process: answers requests of the stage that started it, one at a time, until either of them ends.

    python -m components.modeling.generation.engine.engine --engine MODULE:CLASS --channel FD --parent PID

It may run in another environment than the stage: it needs numpy and what its engine needs.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import socket
import sys
import traceback
from typing import Any, Protocol

from components.modeling.generation.engine import frames
from components.modeling.generation.engine.frames import Arrays, Header
from components.runtime.system.parent import die_with_parent


class Engine(Protocol):
    """What draws responses in the engine's process."""

    def start(self, folder: str, options: dict[str, Any]) -> Header:
        """Load the model folder; return facts about the engine: at least `max_positions`."""
        ...

    def load(self, folder: str) -> None:
        """Take over the weights of the model folder; what was cached of earlier ones is forgotten."""
        ...

    def sample(self, settings: Header, arrays: Arrays) -> Arrays:
        """Draw responses; requests and replies as in components/modeling/generation/engine/requests.py."""
        ...

    def rest(self) -> None:
        """Give memory back until the next call."""
        ...


def serve(channel: socket.socket, engine: Engine) -> None:
    """Answer requests until the channel closes. An error is reported, and its traceback printed; the engine goes on."""
    while True:
        try:
            header, arrays = frames.receive(channel)
        except frames.ChannelClosed:
            return
        try:
            reply, found = _answer(engine, header, arrays)
        except ModuleNotFoundError as error:
            reply, found = {"error": str(error), "missing": error.name}, {}
        except Exception as error:  # the boundary of the process: whatever it is, the stage is told
            traceback.print_exc()
            reply, found = {"error": f"{type(error).__name__}: {error}"}, {}
        frames.send(channel, reply, found)


def _answer(engine: Engine, header: Header, arrays: Arrays) -> tuple[Header, Arrays]:
    call = header["call"]
    if call == "start":
        return engine.start(header["folder"], header["options"]), {}
    if call == "load":
        engine.load(header["folder"])
    elif call == "sample":
        return {}, engine.sample(header, arrays)
    elif call == "rest":
        engine.rest()
    else:
        raise ValueError(f"unknown call {call!r}")
    return {}, {}


def main() -> int:
    """Serve the channel that the parent has opened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", required=True, help="class of the engine, MODULE:CLASS")
    parser.add_argument("--channel", type=int, required=True, help="file descriptor of the socket")
    parser.add_argument("--parent", type=int, required=True, help="process that this one ends with")
    arguments = parser.parse_args()
    die_with_parent()
    if os.getppid() != arguments.parent:  # it was gone before it could be watched
        return 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the stage's to handle
    channel = socket.socket(fileno=arguments.channel)
    channel.set_inheritable(False)  # processes of the engine's own must not keep the channel open
    module, _, name = arguments.engine.partition(":")
    serve(channel, getattr(importlib.import_module(module), name)())
    sys.stdout.flush()
    os._exit(0)  # engines leave threads behind that would hold up an orderly end


if __name__ == "__main__":
    sys.exit(main())
