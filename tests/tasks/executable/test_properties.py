"""What every executable domain keeps to: right demonstrators, wrong mutations, parts apart, seeds, hostile answers."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorRefused
from components.tasks.answers import ANSWER_OPEN, extract_answer
from components.tasks.mutations import mutate
from components.tasks.verify import Outcome, verify, verify_all
from tests.support.hostile import Watch, hostile_responses, listening
from tests.tasks.executable.domains import DOMAINS, draw, write

NAMES = sorted(DOMAINS)
MADE = [name for name in NAMES if DOMAINS[name].parted]
LIMIT_SECONDS = 1.0
"""For one hostile answer judged in our own process."""


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_what_the_demonstrator_writes_is_right(name: str, seed: int) -> None:
    domain = DOMAINS[name]
    for changed in ({}, domain.shift):
        items = draw(domain.source, 6, seed, **changed)
        written = [write(domain.right, item, seed) for item in items]
        verdicts = verify_all(zip(items, written, strict=True))
        assert [(text, verdict) for text, verdict in zip(written, verdicts, strict=True) if not verdict.right] == []
        assert verify(items[0], f"{ANSWER_OPEN}{items[0].answer}").right


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_a_mutated_answer_is_wrong_unless_it_does_the_same(name: str, seed: int) -> None:
    domain = DOMAINS[name]
    items = draw(domain.source, 8, seed)
    rng = random.Random(seed)
    mutated = [mutate(extract_answer(write(domain.right, item, seed)), rng) for item in items]
    verdicts = verify_all((item, f"{ANSWER_OPEN}{text}") for item, text in zip(items, mutated, strict=True))
    assert all(verdict.outcome is not Outcome.FAILED and 0 <= verdict.score <= 1 for verdict in verdicts)
    for item, text, verdict in zip(items, mutated, verdicts, strict=True):
        assert not verdict.right or domain.same(item, text), (item.prompt, text)
    swapped = zip(items, [*mutated[1:], ""], strict=True)
    assert sum(verdict.right for verdict in verify_all((item, f"{ANSWER_OPEN}{text}") for item, text in swapped)) <= 2


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_rows_and_another_seed_others(name: str) -> None:
    source = DOMAINS[name].source
    assert draw(source, 20, 3) == draw(source, 20, 3)
    assert draw(source, 30, 3)[:20] == draw(source, 20, 3)
    assert {item.id for item in draw(source, 20, 3)} != {item.id for item in draw(source, 20, 4)}
    assert draw({**source, "seed": 9}, 20, 3) == draw({**source, "seed": 9}, 20, 4)
    assert len({item.prompt for item in draw(source, 200, 1)}) >= 100


@pytest.mark.parametrize("name", MADE)
@settings(max_examples=3, deadline=None)
@given(cut=st.floats(0.2, 0.8), seed=st.integers(0, 2**31))
def test_parts_share_no_task(name: str, cut: float, seed: int) -> None:
    domain = DOMAINS[name]
    low, high = (draw(domain.source, 60, seed, part=part) for part in ([0.0, cut], [cut, 1.0]))
    assert not {domain.task(item) for item in low} & {domain.task(item) for item in high}


@pytest.mark.parametrize("name", MADE)
def test_knobs_that_contradict_each_other_are_refused(name: str) -> None:
    domain = DOMAINS[name]
    with pytest.raises((OperatorRefused, InputError), match="0 <= low < high <= 1"):
        draw(domain.source, 1, part=[0.5, 0.5])
    for broken in domain.refused:
        with pytest.raises((OperatorRefused, InputError), match=domain.source["name"]):
            draw(domain.source, 1, **broken)


@pytest.mark.parametrize("name", NAMES)
def test_hostile_answers_do_nothing_and_are_wrong_in_bounded_time(name: str, tmp_path: Path) -> None:
    domain = DOMAINS[name]
    (item,) = draw(domain.source, 1)
    item = item.model_copy(update={"data": {**item.data, **domain.quick}})
    with listening() as listener:
        watch = Watch(tmp_path, listener)
        texts = hostile_responses(tmp_path, listener.getsockname()[1], item.answer)
        for text in texts:
            for response in (text, f"{ANSWER_OPEN}{text}", f"{ANSWER_OPEN}{item.answer}\\{text}"):
                began = time.process_time()
                verdict = verify(item, response)
                spent = time.process_time() - began
                solved = domain.sandboxed and item.answer in response  # and does more, inside the sandbox
                assert verdict.outcome is Outcome.WRONG or (solved and verdict.right), (response[:80], verdict)
                assert spent < LIMIT_SECONDS, (response[:80], spent)
                assert verdict.detail.isprintable(), verdict.detail
        assert watch.changes() == []


@pytest.mark.parametrize("name", NAMES)
def test_a_row_of_another_source_is_a_broken_item(name: str) -> None:
    domain = DOMAINS[name]
    (item,) = draw(domain.source, 1)
    bare = item.model_copy(update={"data": {}})
    verdict = verify(bare, f"{ANSWER_OPEN}{item.answer}")
    assert verdict.outcome is Outcome.FAILED and "broken item" in verdict.detail
    if domain.right["name"] != "gold":
        with pytest.raises(InputError, match="not of"):
            write(domain.right, bare)
