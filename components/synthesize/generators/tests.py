"""More tests for programs: proposed by writers, checked by the reference program, and by responses that they catch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import Field, ValidationError, model_validator

from components.synthesize.asking import ask
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.parsing import UNPARSED, unusable
from components.synthesize.sifting import OVER_CAP, REPEATED
from components.synthesize.templates import check_template
from components.synthesize.writers import Writers
from components.tasks.item import Item
from components.tasks.programs.suite import ProgramTest
from components.tasks.verify import verify_all

TESTS = "tests"
REFERENCE_FAILS, CATCHES_NOTHING, NO_TESTS = "reference_fails", "catches_nothing", "no_tests"


class TestsConfig(GeneratorConfig):
    """How tests are asked for, and which are kept."""

    kind = "prompts"
    template: str = (
        "{prompt}\nA solution:\n{answer}\n"
        'Write tests for it, each a line of JSON such as {"args": [1, 2], "expected": 3}.'
    )
    """Asks for tests; {prompt} and {answer} are replaced. Each line of a text is a test of verifier code_tests."""
    max_tests: int = Field(default=16, ge=1)
    """Most new tests of an item."""
    must_catch: bool = False
    """Whether a test is kept only if a wrong response of input `rollouts` that the item's own tests accept, or any
    recorded response, fails it: differential tests."""

    @model_validator(mode="after")
    def _template_is_whole(self) -> TestsConfig:
        check_template("template", self.template, needs=("prompt",), may=("answer",))
        return self


def tests(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: TestsConfig
) -> Iterator[Made | Dropped]:
    """Yield each item of verifier code_tests with the proposed tests that its reference program passes.

    Proposals run in the sandbox only. An item that gets no new test is dropped as no_tests. Ma et al. 2025 (SAGA).
    """
    texts = writers.write([ask(item, "test", config.template) for item in items], context.drawing(config, "test"))
    for item, written in zip(items, texts, strict=True):
        given = item.data.get(TESTS)
        suite: list[Any] = list(given) if isinstance(given, list) else []
        known = {_key(test) for test in suite}
        proposals: list[Any] = []
        for one in written:
            if (reason := unusable(one)) or one is None:
                yield Dropped(reason or "")
                continue
            for test in proposed(one.text):
                if test is None:
                    yield Dropped(UNPARSED)
                elif _key(test) in known:
                    yield Dropped(REPEATED)
                else:
                    known.add(_key(test))
                    proposals.append(test)
        kept, dropped = _checked(item, proposals, context, config)
        yield from map(Dropped, dropped)
        if kept:
            yield Made(
                item.model_copy(update={"data": {**item.data, TESTS: [*suite, *kept]}}), None, {"added": len(kept)}
            )
        else:
            yield Dropped(NO_TESTS)


def proposed(text: str) -> Iterator[dict[str, Any] | None]:
    """Yield the test of each line that is not empty; None for a line that holds none."""
    for line in text.splitlines():
        if line.strip():
            try:
                test = json.loads(line)
                ProgramTest.model_validate(test)
                yield test
            except (ValueError, ValidationError, RecursionError):
                yield None


def _checked(
    item: Item, proposals: Sequence[Any], context: GeneratorContext, config: TestsConfig
) -> tuple[list[Any], list[str]]:
    """Return the proposals that hold, at most `max_tests`, and why the others are dropped."""
    alone = [item.model_copy(update={"data": {**item.data, TESTS: [test]}}) for test in proposals]
    holds = [verdict.right for verdict in verify_all((one, item.answer) for one in alone)]
    responses = [one.response for one in context.rollouts.get(item.id, ())] if config.must_catch else []
    kept: list[Any] = []
    dropped = []
    for test, one, right in zip(proposals, alone, holds, strict=True):
        if not right:
            dropped.append(REFERENCE_FAILS)
        elif config.must_catch and all(verdict.right for verdict in verify_all((one, text) for text in responses)):
            dropped.append(CATCHES_NOTHING)
        elif len(kept) == config.max_tests:
            dropped.append(OVER_CAP)
        else:
            kept.append(test)
    return kept, dropped


def _key(test: Any) -> str:
    return json.dumps(test, sort_keys=True)
