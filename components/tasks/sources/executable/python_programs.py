"""Python functions over a list of numbers, with tests: what verifier code_tests is tried on, without end."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from components.contract.errors import InputError, UnknownName
from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.domains.python_steps import ENTRY, STEPS, program, result
from components.tasks.source import SourceRequest, SourceRows

VERIFIER = "code_tests"
NUM_TESTS = 8
LIMITS = {"seconds": 1.0, "total_seconds": 3.0, "memory_mb": 256}


def check_steps(steps: tuple[str, ...]) -> tuple[str, ...]:
    """Return the steps; raise InputError for one that there is not."""
    for words in steps:
        if words not in STEPS:
            raise UnknownName("step", words, STEPS)
    return steps


class PythonProgramsConfig(MadeConfig):
    """How many steps a program has, and what is told of it."""

    min_steps: int = Field(default=2, ge=1, le=6)
    """Fewest steps."""
    max_steps: int = Field(default=3, ge=1, le=6)
    """Most steps: the knob of difficulty."""
    steps: Annotated[tuple[str, ...], AfterValidator(check_steps)] = tuple(STEPS)
    """Steps that programs are made of: another set is a shift of domain."""
    given: Literal["words", "examples", "both"] = "words"
    """What the prompt tells: the steps, the first tests, or both."""
    examples: int = Field(default=2, ge=1, le=NUM_TESTS)
    """Tests that are shown, where they are."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        ends = {STEPS[words].ends for words in self.steps}
        going = len({words for words in self.steps if not STEPS[words].ends})
        if going < 2 and self.min_steps > (longest := going + (True in ends)):
            raise InputError(
                f"source python_programs: no step follows itself, so {', '.join(self.steps)} make programs of at most "
                f"{longest} steps, and min_steps is {self.min_steps}"
            )
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def python_programs(request: SourceRequest, *, config: PythonProgramsConfig) -> SourceRows:
    r"""Tell `f: sort, drop first, sum`; the answer is a function, `def f(v):\n v=sorted(v)\n v=v[1:]\n return sum(v)`.

    Or show `f([3,1])=[1,3] ...`. A step that makes a number comes last. `data` holds 8 tests for verifier code_tests,
    which runs programs in the sandbox. Parts share no sequence of steps.
    """
    return made_rows("python_programs", request, config, VERIFIER, lambda rng: _draw(config, rng))


def _draw(config: PythonProgramsConfig, rng: random.Random) -> Made | None:
    steps = [rng.choice(config.steps) for _ in range(rng.randint(config.min_steps, config.max_steps))]
    repeated = any(one == other for one, other in pairwise(steps))
    if repeated or any(STEPS[words].ends for words in steps[:-1]):
        return None
    lists = [[rng.randint(0, 9) for _ in range(rng.randint(3, 5))] for _ in range(NUM_TESTS - 1)] + [[]]
    tests = [{"args": [numbers], "expected": result(steps, numbers)} for numbers in lists]
    if len({str(test["expected"]) for test in tests}) < NUM_TESTS // 2:
        return None
    told = f"{ENTRY}: {', '.join(steps)}" if config.given != "examples" else ""
    shown = [f"{ENTRY}({test['args'][0]})={test['expected']}".replace(" ", "") for test in tests[: config.examples]]
    parts = [told, *(shown if config.given != "words" else [])]
    data = {"tests": tests, "entry_point": ENTRY, "language": "python", "limits": LIMITS, "steps": steps}
    return Made(",".join(steps), " ".join(part for part in parts if part), program(steps), data)
