"""The escape suite: every hostile program in the sandbox of this machine, and what came of each, as a table.

Needs nothing but Python and this tree: python -m tests.runtime.sandbox.escapes [BACKEND]. Exit code 1 for an escape.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from components.runtime.sandbox import RUN_PYTHON, Limits, NoSandbox, Reply, Sandbox, Status, open_sandbox
from tests.runtime.sandbox.attack import Attack
from tests.runtime.sandbox.exhausting import EXHAUSTING
from tests.runtime.sandbox.forging import FORGING
from tests.runtime.sandbox.reaching import REACHING
from tests.runtime.sandbox.world import World, processes_named

ATTACKS = (*REACHING, *EXHAUSTING, *FORGING)
AT_ONCE = 4
ANSWER_SECONDS = 2.0
"""How long after its limit a program is answered at the latest."""
MOST_PROCESSES = {"bubblewrap": 16, "landlock": 512}
"""How many a bomb may start; under Landlock the kernel counts roughly, and the watch ends what has too many."""
HONEST = "import os, json\ndef answer():\n    return [sorted(os.listdir('.')), 6 * 7, json.dumps([1])]"
HONEST_ANSWER = [[], 42, "[1]"]


@dataclass(frozen=True)
class Row:
    """What came of one program."""

    name: str
    status: str
    seconds: float
    problems: tuple[str, ...]


def run_suite(attacks: Sequence[Attack] = ATTACKS) -> list[Row]:
    """Run all programs, some at once, in one sandbox; NoSandbox where this machine has none."""
    sandbox = open_sandbox(servers=AT_ONCE)
    world = World(MOST_PROCESSES[sandbox.backend.partition(":")[0]])
    try:
        with sandbox, ThreadPoolExecutor(AT_ONCE) as pool:
            warm = [pool.submit(honest, sandbox) for _ in range(2 * AT_ONCE)]
            assert all(one.result() == [] for one in warm), [one.result() for one in warm]
            rows = list(pool.map(lambda pair: run_one(sandbox, world, *pair), enumerate(attacks)))
        harm = world.harm()
        return [*rows, Row("the world outside", "", 0.0, tuple(harm))]
    finally:
        world.close()


def run_one(sandbox: Sandbox, world: World, place: int, attack: Attack) -> Row:
    """Run one program and look for what it did."""
    marker = f"m{os.getpid() % 10000:04d}x{place:03d}y{world.token[:4]}"
    limits = Limits(
        seconds=attack.seconds,
        memory_bytes=attack.memory_mib << 20,
        output_bytes=attack.output_kib << 10,
        processes=12,
        file_bytes=16 << 20,
    )
    program = {"source": attack.program(), "entry": "attack", "arguments": [world.describe(marker)]}
    began = time.monotonic()
    reply = sandbox.call(RUN_PYTHON, program, limits)
    seconds = time.monotonic() - began
    problems = [*judge(attack, reply, world), *honest(sandbox)]
    if seconds > attack.seconds + ANSWER_SECONDS:
        problems.append(f"answered after {seconds:.1f} s of {attack.seconds:g} s")
    if left := processes_named(marker[:15]):
        problems.append(f"processes left: {left}")
    return Row(attack.name, reply.status.value, seconds, tuple(problems))


def judge(attack: Attack, reply: Reply, world: World) -> list[str]:
    """Return what is wrong with a reply."""
    problems = []
    said = json.dumps([reply.value, reply.detail, reply.stdout])
    if world.token in said:
        problems.append("it has the secret")
    if "ESCAPED" in said:
        problems.append(said[:300])
    if reply.status.value not in attack.statuses:
        problems.append(f"{reply.status.value}, not {' or '.join(attack.statuses)}: {said[:300]}")
    return problems


def honest(sandbox: Sandbox) -> list[str]:
    """Return what is wrong with the answer to an honest program."""
    reply = sandbox.call(RUN_PYTHON, {"source": HONEST, "entry": "answer"}, Limits(seconds=20))
    if reply.status is Status.VALUE and reply.value == HONEST_ANSWER and reply.stdout == "":
        return []
    return [f"an honest program got {reply}"]


def main(arguments: Sequence[str]) -> int:
    """Print the table; 1 when something escaped, 2 where there is no sandbox."""
    if arguments:
        os.environ["POSTTRAIN_SANDBOX"] = arguments[0]
    try:
        with open_sandbox() as sandbox:
            backend = sandbox.backend
        rows = run_suite()
    except NoSandbox as error:
        print(error, file=sys.stderr)
        return 2
    for row in rows:
        print(f"{row.name:36} {row.status:8} {row.seconds:6.2f} s  {'; '.join(row.problems) or 'held'}")
    escaped = [row for row in rows if row.problems]
    print(f"{backend}: {len(ATTACKS)} hostile programs, {len(escaped)} not held")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
