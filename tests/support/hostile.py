"""Responses that try to do something, and a look at whether they did."""

from __future__ import annotations

import builtins
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MARK = "hostile-canary-7b21"
"""Stands in the command line of every process that a response tries to start, and in variables that it sets."""


def hostile_responses(folder: Path, port: int, reference: str) -> list[str]:
    """Return answers that touch files in `folder`, call `port` on the loopback, start processes, patch and stall."""
    run = "__import__('os')"
    gadget = "[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close'][0]"
    return [
        f"[{run}.system('touch {folder}/1')]",
        f"{run}.system('touch {folder}/2')",
        f"open('{folder}/3', 'w').write('x')",
        f"[[open('{folder}/4', 'w')], [1]]",
        f"1 if open('{folder}/5', 'w') else 0",
        f"exec(\"open('{folder}/6', 'w')\")",
        f"{gadget}.__init__.__globals__['system']('touch {folder}/7')",
        f"S('{run}.system(\"touch {folder}/8\")')",
        f"{reference} + 0*{run}.system('touch {folder}/9')",
        f"{reference}\n{run}.system('touch {folder}/10')",
        f"{run}.environ.__setitem__('{MARK}', '1')",
        f"__import__('socket').create_connection(('127.0.0.1', {port}))",
        f"__import__('subprocess').Popen(['sleep', '600', '{MARK}'])",
        f"{run}.fork() or __import__('time').sleep(600)",
        "setattr(__import__('reasoning_gym').factory.ProceduralDataset, 'score_answer', lambda *a: 1.0)",
        "setattr(__import__('components.tasks.verify').tasks.verify, 'verify', lambda *a: None)",
        "__import__('builtins').__dict__.__setitem__('eval', lambda *a: 1)",
        "type('T', (str,), {'__eq__': lambda s, o: True, '__hash__': str.__hash__, '__contains__': lambda s, o: 1})()",
        'print(\'{"scores": [1.0, 1.0]}\') or [__import__("os").write(n, b"{}") for n in range(3, 20)]',
        f"{run}._exit(0)",
        f"{run}.kill(0, 9)",
        "__import__('sys').exit(0)",
        "[0 for _ in iter(int, 1)]",
        "9**9**9**9**9",
        "1e999999999",
        "9" * 20_000,
        "(" * 5_000 + "1" + ")" * 5_000,
        "[" * 5_000,
        "-" * 5_000 + "1",
        re.sub(r"-?\d+(\.\d+)?", "NaN", reference) if re.search(r"\d", reference) else "NaN",
        "nan",
        "inf",
        "{0.__class__.__init__.__globals__}%n%s${MARK}",
        "\x00\ud800\u2028",
    ]


class Watch:
    """What a response could have changed, as it was before."""

    def __init__(self, folder: Path, listener: socket.socket) -> None:
        from reasoning_gym.dataset import ProceduralDataset

        from components.tasks import verify

        self._folder, self._listener = folder, listener
        self._owners = [(builtins, "eval"), (builtins, "exec"), (builtins, "open"), (verify, "verify")]
        self._owners += [(ProceduralDataset, "score_answer"), (verify, "verify_all")]
        self._known = [getattr(owner, name) for owner, name in self._owners]
        self._environment = _environment()
        self._working = Path.cwd()

    def changes(self) -> list[str]:
        """Return what is not as it was: files, variables, connections, processes and patched functions."""
        found = [f"file {path.name}" for path in self._folder.iterdir()]
        if _environment() != self._environment or Path.cwd() != self._working:
            found.append("environment")
        try:
            self._listener.accept()
            found.append("connection")
        except BlockingIOError:
            pass
        found += [f"process {process}" for process in _processes()]
        patched = zip(self._owners, self._known, strict=True)
        return found + [f"patched {name}" for (owner, name), known in patched if getattr(owner, name) is not known]


@contextmanager
def listening() -> Iterator[socket.socket]:
    """Listen on a free port of the loopback without ever waiting for a connection."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        listener.setblocking(False)
        yield listener


def _environment() -> dict[str, str]:
    """Return the variables but pytest's own, which names the test and its phase."""
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def _processes() -> Iterator[str]:
    """Yield processes of the whole machine whose command line holds the mark."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if MARK.encode() in line:
            yield folder.name
