"""What a step knows of its verifications: a user's verifier that raises is counted, with its first line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from components.contract.operator_files import library
from components.contract.operator_files.code import OperatorCode
from components.rl.batch.batch import RIGHT, WRONG
from components.rl.step.judging import Judge
from components.tasks.item import Item

CHECK = "def check(response, answer):\n    return int(response) == int(answer)\n"


def batch(texts: list[str]) -> Any:
    """Return what a judge reads of a batch of one prompt with these responses."""
    code = OperatorCode(file="check.py", files={"check.py": CHECK})
    library.keep([code])
    item = Item(id="a", domain="d", prompt="6*7?", answer="42", verifier=code.name("check"), difficulty=0)
    rows = torch.arange(len(texts))
    return SimpleNamespace(
        prompts=[SimpleNamespace(item=item)], group=torch.zeros_like(rows), trace=rows, last_rows=rows, texts=texts
    )


def test_texts_on_which_the_verifier_raises_are_wrong_and_counted_once_each() -> None:
    judge = Judge()
    found = judge.verdicts(batch(["42", "six", "41", "six", "seven"]))
    assert [outcome for outcome, _ in found] == [RIGHT, WRONG, WRONG, WRONG, WRONG]
    assert (judge.num_raised, judge.num_judged) == (2, 4)
    assert judge.first_raised.startswith("check.py:check raised ValueError on it at check.py:2: ")
    fine = Judge()
    fine.verdicts(batch(["42", "41"]))
    assert (fine.num_raised, fine.first_raised) == (0, "")
