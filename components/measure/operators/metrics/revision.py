"""What critiques do for an actor that answers again: how often wrong answers become right, and right ones wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import field_validator

from components.contract.further import PARTNERS
from components.measure.harness.configs import MetricConfig
from components.tasks.questions import check_question

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes
    from components.tasks.item import Item

NAMES = ("prompt", "response", "critique")


class RevisionMetricConfig(MetricConfig):
    """What the actor is asked. It is the first model at input `partners`."""

    asks: ClassVar[tuple[str, ...]] = (PARTNERS,)
    gives: ClassVar[Mapping[str, str]] = {
        "unrevised": "Whether the response that is criticised is right",
        "revised": "Share of the answers after a critique that are right",
        "mended": "The same, of responses that were wrong",
        "spoiled": "Share of wrong answers after a critique, of responses that were right",
    }
    question: str = "{prompt}\nA response: {response}\nA critique: {critique}\nAnswer again."
    """{prompt}, {response} and {critique} are replaced."""

    @field_validator("question")
    @classmethod
    def _whole(cls, value: str) -> str:
        return check_question("metric revision", value, NAMES, needs=("critique",))


def revision(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: RevisionMetricConfig
) -> Mapping[str, list[float | None]]:
    """Return four values for each prompt; a metric's mean over prompts is its rate.

    Every critique, whatever its verdict, goes into the actor's question, whose greedy answer has the task's verifier.
    Prompts are those of generator attempts. None where the actor refuses, or nothing can be verified.
    Source: Xi et al. 2025, Critique-RL: accuracy after one round, and the shares that are wrong to right and right to
    wrong.
    """
    from components.judges.fencing import without_control
    from components.modeling.serving.models import Drawing
    from components.tasks.questions import filled
    from components.tasks.revised import task_of
    from components.tasks.verify import verify_all

    tasks = [task_of(outcome.item, "metric revision") for outcome in outcomes]
    actor = context.further[PARTNERS][0]
    marks = getattr(actor, "control_marks", ())

    def question(task: Item, **texts: str) -> str:
        shown = {name: without_control(text, marks) for name, text in texts.items()}
        return filled(config.question, {"prompt": task.prompt, **shown})

    asked = [
        (at, question(task, response=response, critique=critique))
        for at, ((task, response), outcome) in enumerate(zip(tasks, outcomes, strict=True))
        for critique in outcome.responses
    ]
    distinct = list(dict.fromkeys(text for _, text in asked))
    drawing = Drawing(max_new_tokens=context.max_new_tokens, temperature=0.0, seed=context.seed)
    written = dict(zip(distinct, actor.write(distinct, drawing), strict=True))
    answers = [(at, one.text) for at, text in asked if (one := written[text][0]) is not None]
    verdicts = verify_all([*((tasks[at][0], text) for at, text in answers), *tasks])
    after: list[list[float]] = [[] for _ in outcomes]
    for (at, _), verdict in zip(answers, verdicts, strict=False):
        if not verdict.failed:
            after[at].append(float(verdict.right))
    before = [None if verdict.failed else float(verdict.right) for verdict in verdicts[len(answers) :]]
    return _measures(before, [sum(found) / len(found) if found else None for found in after])


def _measures(before: Sequence[float | None], after: Sequence[float | None]) -> dict[str, list[float | None]]:
    pairs = list(zip(before, after, strict=True))
    return {
        "unrevised": list(before),
        "revised": list(after),
        "mended": [now if then == 0 else None for then, now in pairs],
        "spoiled": [1 - now if then == 1 and now is not None else None for then, now in pairs],
    }
