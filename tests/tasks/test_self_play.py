"""Self-play, the test of a generator: its solution scores 1, corrupted ones 0. Curate has it as verifiability."""

from __future__ import annotations

from collections import Counter

import pytest

from components.curation.candidate import Candidate
from components.curation.operators.verifiability import Verifiability, VerifiabilityConfig
from components.tasks.item import Item
from tests.tasks.test_worlds import items, write


def reasons(found: list[Item], **solver: object) -> Counter[str | None]:
    """Count why rows go, each with the solution that the generator's own solver writes."""
    check = Verifiability(VerifiabilityConfig(mutations=4, responses=True), seed=3)
    drafts = [
        Candidate(id=item.id, domain="d", source=0, item=item, response=write(item, number, **solver))
        for number, item in enumerate(found)
    ]
    return Counter(check.reject(draft) for draft in drafts)


@pytest.mark.parametrize("size, generators", [(1, 11), (2, 31), (3, 1)])
def test_every_generator_passes_self_play(size: int, generators: int) -> None:
    spec = {"name": "generators", "rules": 11, "size": size, "generators": generators, "unseen": 0}
    found = items(spec, 40 * generators)
    assert len({tuple(item.data["rules"]) for item in found}) == generators
    assert reasons(found, name="generators") == {None: len(found)}


def test_a_solver_that_errs_is_found() -> None:
    found = items({"name": "generators", "rules": 11}, 40)
    assert reasons(found, name="generators", shirk=1.0) == {"wrong_response": 40}
    assert reasons(found, name="generators", error_rate=1.0) == {"wrong_response": 40}
