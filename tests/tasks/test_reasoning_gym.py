"""reasoning-gym's scorers behind our three outcomes: over many tasks, through JSON, and where they break."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.grammars.reasoning_gym_tasks import TASK_NAMES
from components.tasks.item import Item, item_id
from components.tasks.mutations import mutate
from components.tasks.seeds import derive_rng
from components.tasks.source import SourceRequest, SourceRow
from components.tasks.verify import Outcome, verify

TASKS = (
    "basic_arithmetic",
    "chain_sum",
    "count_primes",
    "gcd",
    "letter_counting",
    "prime_factorization",  # its scorer raises on what it cannot parse
    "products",
    "rearc",  # its metadata does not survive JSON
    "simple_equations",
    "spell_backward",
    "word_sorting",
)


def draw(task: str, count: int, *, seed: int = 1, config: dict[str, Any] | None = None) -> list[SourceRow]:
    source = OperatorSpec.model_validate({"name": "reasoning_gym", "task": task, "config": config or {}})
    request = SourceRequest(seed=seed, limit=count, scratch=Path("unused"))
    return [row for row in islice(source.resolve("source")(request).rows, count) if isinstance(row, SourceRow)]


def through_json(row: SourceRow, domain: str) -> Item:
    """Return the item as another process reads it."""
    identifier = item_id(domain, row.prompt, row.answer)
    item = Item(id=identifier, domain=domain, **{k: getattr(row, k) for k in ("prompt", "answer", "verifier", "data")})
    return Item.model_validate(json.loads(json.dumps(item.row())))


@pytest.mark.parametrize("task", TASKS)
def test_references_are_right_and_mutations_wrong(task: str) -> None:
    for row in draw(task, 6):
        item = through_json(row, task)
        assert verify(item, f"<think>hm<answer>{item.answer}").outcome is Outcome.RIGHT
        rng = derive_rng(0, item.id)
        for response in ("", "<answer>", "I do not know", *(f"<answer>{mutate(item.answer, rng)}" for _ in range(4))):
            verdict = verify(item, response)
            assert verdict.outcome is Outcome.WRONG, (item.answer, response, verdict)


@pytest.mark.parametrize("lost", ["task", "config"])
def test_an_item_without_its_data_is_failed(lost: str) -> None:
    item = through_json(draw("chain_sum", 1)[0], "A")
    broken = item.model_copy(update={"data": {key: value for key, value in item.data.items() if key != lost}})
    verdict = verify(broken, f"<answer>{item.answer}")
    assert verdict.outcome is Outcome.FAILED
    assert f"data.{lost} is missing" in verdict.detail


def test_a_scorer_that_does_not_accept_the_reference_is_failed() -> None:
    item = through_json(draw("rearc", 1)[0], "r")
    broken = item.model_copy(update={"data": {**item.data, "metadata": {}}})
    verdict = verify(broken, f"<answer>{item.answer}")
    assert verdict.outcome is Outcome.FAILED
    assert "does not accept the reference" in verdict.detail


def test_metadata_that_json_loses_is_made_again() -> None:
    (row,) = draw("rearc", 1)
    assert "metadata" not in row.data
    item = through_json(row, "r")
    assert verify(item, f"<answer>{item.answer}").outcome is Outcome.RIGHT
    other = item.model_copy(update={"prompt": "another question"})
    assert "another version" in verify(other, f"<answer>{item.answer}").detail


def test_neighbouring_seeds_share_no_stretch() -> None:
    """reasoning-gym makes item i from seed + i, so its own seeds 7 and 8 would share all items but one."""
    seven = {row.data["seed"] + row.data["index"] for row in draw("chain_sum", 200, seed=7)}
    eight = {row.data["seed"] + row.data["index"] for row in draw("chain_sum", 200, seed=8)}
    assert len(seven) == len(eight) == 200
    assert not seven & eight


def test_more_rows_continue_the_same_sequence() -> None:
    assert [row.prompt for row in draw("chain_sum", 20)] == [row.prompt for row in draw("chain_sum", 50)][:20]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "chain_sums"}, "did you mean 'chain_sum'"),
        ({"task": "chain_sum", "config": {"max_term": 3}}, "max_term"),
        ({"task": "chain_sum", "config": {"min_terms": 5, "max_terms": 2}}, "refuses its config"),
        ({"task": "chain_sum", "config": {"seed": 3}}, "seed of reasoning-gym task .chain_sum. cannot be set"),
    ],
)
def test_wrong_configs_are_named(settings: dict[str, Any], message: str) -> None:
    spec = OperatorSpec.model_validate({"name": "reasoning_gym", **settings})
    with pytest.raises(InputError, match=message):
        spec.resolve("source")(SourceRequest(seed=0, limit=1, scratch=Path("unused")))


def test_an_unknown_task_is_found_without_importing_the_library() -> None:
    """Plans check it, so it must cost milliseconds; what is read off the files is what the library registers."""
    code = (
        "import sys; from components.contract.operators import OperatorSpec\n"
        "try: OperatorSpec(name='reasoning_gym', task='chain_sums').resolve('source')\n"
        "except ValueError as error: print(error)\n"
        "assert 'reasoning_gym' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "did you mean 'chain_sum'" in done.stdout
    from reasoning_gym.factory import DATASETS

    assert set(DATASETS) == TASK_NAMES
