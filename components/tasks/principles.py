"""Lists of principles: a judge that finds a response good if it holds to every principle of its list.

The list is one row of a Dataset, as a reflector edits it; in the data of prompts it is the rubric that reward `rubric`
reads, whose criteria are all vetoes, so that the reward is 1 or 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator

from components.contract.errors import InputError
from components.tasks.item import UNLABELLED, Item, item_id
from components.tasks.revised import RESPONSE
from components.tasks.rubric import Criterion, Rubric, checks, rubric_of
from components.tasks.verify import verify_all

LIST, GOOD, RUBRIC = "principles", "good", "rubric"
"""Keys of an item's data: the list in a row of its own; whether a response (`response`) is good, as an example says;
the list as reward `rubric` reads it."""
DOMAIN = "principles"
OWN = frozenset({"name", "verifier", "answer", "data", "of_item"})
"""Fields of a criterion that a principle has; the others are about points."""


def _principles(criteria: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
    for criterion in criteria:
        if odd := sorted(criterion.model_fields_set - OWN):
            raise InputError(f"principle {criterion.name}: it holds or does not, and has no {odd[0]}")
    names = [criterion.name for criterion in criteria]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"principle {twice} is there twice")
    return criteria


Principles = Annotated[tuple[Criterion, ...], AfterValidator(_principles)]
"""Criteria without points, each with a name of its own."""


def rubric_from(principles: Sequence[Criterion]) -> Rubric:
    """Return the rubric whose total is 1 for a response that holds to all principles, else 0."""
    return Rubric(criteria=tuple(one.model_copy(update={"veto": True}) for one in principles))


def list_row(principles: Sequence[Criterion]) -> Item:
    """Return the list as an item, whose prompt is what a model would be told of it."""
    told = "\n".join(f"- {one.name}: {_written(one)}" for one in principles)
    prompt = f"A response is good if it holds to every principle:\n{told}"
    data = {LIST: [one.model_dump(mode="json", include=set(OWN)) for one in principles]}
    return Item(id=item_id(DOMAIN, prompt, ""), domain=DOMAIN, prompt=prompt, answer="", verifier=UNLABELLED, data=data)


def _written(principle: Criterion) -> str:
    settings = {**principle.verifier.settings, **principle.data}
    return " ".join([principle.verifier.name, *(f"{name}={value}" for name, value in sorted(settings.items()))])


def list_of(items: Iterable[Item], owner: str) -> tuple[Criterion, ...]:
    """Return the one list among items; raise InputError, begun by `owner`, for none, for two, or for a broken one."""
    found = {item.id: item for item in items if LIST in item.data}
    if len(found) != 1:
        raise InputError(
            f"{owner}: {len(found)} lists of principles among the inputs, expected one; connect a row of generator "
            "principles"
        )
    (item,) = found.values()
    rubric = rubric_of(item, LIST)
    assert rubric is not None, "the item has the key"
    return _principles(rubric.criteria)


def tasks_of(items: Iterable[Item]) -> list[Item]:
    """Return the items that are neither a list nor an example."""
    return [item for item in items if LIST not in item.data and GOOD not in item.data]


def held(principles: Sequence[Criterion], asked: Sequence[tuple[Item, str]]) -> list[list[bool]]:
    """Return for each task and response which of the principles it holds to.

    Raises InputError where one cannot be checked, since a judge that does not judge teaches nothing.
    """
    rubric = rubric_from(principles)
    verdicts = verify_all((check, text) for item, text in asked for check in checks(item, rubric))
    found = []
    for at, (item, _) in enumerate(asked):
        own = verdicts[at * len(principles) : (at + 1) * len(principles)]
        for principle, verdict in zip(principles, own, strict=True):
            if verdict.failed:
                raise InputError(f"principle {principle.name} cannot be checked on item {item.id}: {verdict.detail}")
        found.append([verdict.score >= 1 for verdict in own])
    return found


def example(item: Item, response: str, *, good: bool) -> dict[str, Any]:
    """Return the data of an example: the task's, the response, and whether it is good."""
    return {**item.data, RESPONSE: response, GOOD: good}


def examples_of(items: Iterable[Item], owner: str) -> list[tuple[Item, str, bool]]:
    """Return task, response and label of each example among items; raise InputError for one without a response."""
    found = []
    for item in items:
        if GOOD not in item.data:
            continue
        response, good = item.data.get(RESPONSE), item.data[GOOD]
        if not (isinstance(response, str) and isinstance(good, bool)):
            raise InputError(f"{owner}: example {item.id} has no response with a label (data.{RESPONSE}, data.{GOOD})")
        found.append((item, response, good))
    return found
