"""The engine's process: answers requests of the stage that started it, one at a time, until either process ends.

    python -m components.modeling.generation.engine.engine --engine MODULE:CLASS --channel FD --parent PID

Its environment may differ from the stage's: it needs only numpy and the engine's own packages.
"""

from __future__ import annotations

import argparse
import importlib
import os
import select
import signal
import socket
import sys
import traceback
from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Protocol

from components.modeling.generation.engine import frames
from components.modeling.generation.engine.frames import Arrays, Header
from components.modeling.generation.engine.pulse import open_pulse
from components.runtime.system.parent import die_with_parent


class Engine(Protocol):
    """Draws responses in the engine's process."""

    def start(self, folder: str, options: dict[str, Any]) -> Header:
        """Make the model of the folder's config.json, which has no weights beside it; return facts about the engine.

        At least `max_positions`, and `gpus`, the UUIDs of its GPUs, if it has any.
        """
        ...

    def connect(self, settings: Header) -> None:
        """Open the `way` that weights come by, with what it needs; see components/modeling/generation/engine/transfer.

        Raise what is wrong where it does not work: the stage then takes another one.
        """
        ...

    def begin(self) -> None:
        """Get ready for new weights."""
        ...

    def take(self, bucket: Header) -> None:
        """Take some of the weights; when this returns, their buffer may be filled again."""
        ...

    def end(self) -> None:
        """Draw with the weights that came since `begin`, and drop what was cached with earlier ones."""
        ...

    def submit(self, settings: Header, arrays: Arrays) -> None:
        """Begin a draw; requests and replies as in components/modeling/generation/engine/requests.py."""
        ...

    def advance(self) -> Arrays | None:
        """Do a piece of what was submitted; return the responses of the oldest draw when it is done.

        Call `pulse.beat` whenever some of it is done: an engine that gets nothing done is killed.
        """
        ...

    def rest(self) -> Header:
        """Release memory until the next call; return whether the engine is `weightless` until new weights come."""
        ...


class InTurn(ABC):
    """The drawing of an engine that does one draw after the other."""

    def __init__(self) -> None:
        self._submitted: deque[tuple[Header, Arrays]] = deque()

    @abstractmethod
    def sample(self, settings: Header, arrays: Arrays) -> Arrays:
        """Draw all responses."""

    def submit(self, settings: Header, arrays: Arrays) -> None:
        """Put a draw behind the others."""
        self._submitted.append((settings, arrays))

    def advance(self) -> Arrays | None:
        """Do the oldest draw."""
        return self.sample(*self._submitted.popleft())


class _Draws:
    """Draws in progress, and what became of those that are done."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self.open = engine, 0
        self._done: deque[Arrays | Exception] = deque()

    def begin(self, settings: Header, arrays: Arrays) -> None:
        self._engine.submit(settings, arrays)
        self.open += 1

    def advance(self) -> None:
        """Do a piece; an error belongs to the oldest draw, and is told when that is asked for."""
        try:
            found = self._engine.advance()
        except Exception as error:
            self._done.append(error)
        else:
            if found is None:
                return
            self._done.append(found)
        self.open -= 1

    def collect(self) -> Arrays:
        while not self._done:
            if not self.open:
                raise ValueError("nothing is being drawn")
            self.advance()
        found = self._done.popleft()
        if isinstance(found, Exception):
            raise found
        return found


def serve(channel: socket.socket, engine: Engine) -> None:
    """Answer requests until the channel closes, and draw while there are none.

    An error is reported, its traceback printed, and serving goes on.
    """
    draws = _Draws(engine)
    while True:
        if draws.open and not select.select([channel], [], [], 0)[0]:
            draws.advance()
            continue
        try:
            header, arrays = frames.receive(channel)
        except frames.ChannelClosed:
            return
        try:
            reply, found = _answer(engine, draws, header, arrays)
        except ModuleNotFoundError as error:
            reply, found = {"error": str(error), "missing": error.name}, {}
        except Exception as error:  # process boundary: every error is reported to the stage
            traceback.print_exc()
            reply, found = {"error": f"{type(error).__name__}: {error}"}, {}
        frames.send(channel, reply, found)


def _answer(engine: Engine, draws: _Draws, header: Header, arrays: Arrays) -> tuple[Header, Arrays]:
    call = header["call"]
    settings = {name: value for name, value in header.items() if name != "call"}
    if call == "start":
        return engine.start(header["folder"], header["options"]), {}
    if call == "collect":
        return {}, draws.collect()
    if call == "rest":
        return engine.rest(), {}
    if call == "sample":
        draws.begin(settings, arrays)
    elif call == "connect":
        engine.connect(settings)
    elif call == "begin":
        engine.begin()
    elif call == "take":
        engine.take(settings)
    elif call == "end":
        engine.end()
    else:
        raise ValueError(f"unknown call {call!r}")
    return {}, {}


def main() -> int:
    """Serve the channel that the parent has opened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", required=True, help="class of the engine, MODULE:CLASS")
    parser.add_argument("--channel", type=int, required=True, help="file descriptor of the socket")
    parser.add_argument("--pulse", type=int, required=True, help="file descriptor of the engine's pulse")
    parser.add_argument("--parent", type=int, required=True, help="process that this one ends with")
    arguments = parser.parse_args()
    die_with_parent()
    if os.getppid() != arguments.parent:  # the parent ended before die_with_parent took effect
        return 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the stage handles Ctrl-C
    channel = socket.socket(fileno=arguments.channel)
    channel.set_inheritable(False)  # child processes of the engine must not keep the channel open
    open_pulse(arguments.pulse)
    os.set_inheritable(arguments.pulse, False)
    module, _, name = arguments.engine.partition(":")
    serve(channel, getattr(importlib.import_module(module), name)())
    sys.stdout.flush()
    os._exit(0)  # engines leave threads behind that would block a normal exit


if __name__ == "__main__":
    sys.exit(main())
