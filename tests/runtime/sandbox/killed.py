"""A process to be killed: sandboxed work, some of it hostile, and a digest of all answers at its end."""

from __future__ import annotations

import hashlib
import sys
from concurrent.futures import ThreadPoolExecutor

from components.runtime.sandbox import RUN_PYTHON, Limits, open_sandbox

SOURCES = (
    "print(6 * 7)",
    "import os, time\nfor _ in range(3):\n  if os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\nprint('left')",
    "while True: pass",
    "import random\nprint(random.random(), {'a', 'b'})",
)
ROUNDS = 2


def main() -> None:
    """Run each program some times, three at once; the first argument is a folder whose name marks our processes."""
    sys.path.append(sys.argv[1])
    with open_sandbox(servers=3) as sandbox, ThreadPoolExecutor(3) as pool:
        work = [(sandbox, source) for _ in range(ROUNDS) for source in SOURCES]
        print("started", flush=True)
        said = list(pool.map(lambda pair: run(*pair), work))
    print(hashlib.sha256(repr(said).encode()).hexdigest())


def run(sandbox, source: str) -> tuple[str, str]:
    """Return what of an answer is the same every time."""
    reply = sandbox.call(RUN_PYTHON, {"source": source}, Limits(seconds=0.5 if "while" in source else 30.0))
    return reply.status.value, reply.stdout


if __name__ == "__main__":
    main()
