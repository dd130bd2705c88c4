"""Verifiers in users' files: `check(response, answer, **columns)`, its verdicts, and who is at fault for an error."""

from __future__ import annotations

import pytest

from components.contract.errors import OperatorFailed
from components.contract.operator_files import library
from components.contract.operator_files.code import OperatorCode
from components.curation.candidate import Candidate
from components.curation.operators.verifiability import Verifiability, VerifiabilityConfig
from components.tasks.item import Item
from components.tasks.verify import Outcome, verify, verify_all


def item(body: str, signature: str = "response, answer, **columns", answer: str = "42", **data: object) -> Item:
    code = OperatorCode(file="check.py", files={"check.py": f"def check({signature}):\n    {body}\n"})
    library.keep([code])
    return Item(id="i", domain="d", prompt="6*7?", answer=answer, verifier=code.name("check"), data=data)


@pytest.mark.parametrize(
    ("returned", "outcome", "score"),
    [
        ("True", Outcome.RIGHT, 1.0),
        ("False", Outcome.WRONG, 0.0),
        ("1", Outcome.RIGHT, 1.0),
        ("0.25", Outcome.WRONG, 0.25),
        ("__import__('numpy').float32(1)", Outcome.RIGHT, 1.0),
        ("__import__('numpy').bool_(False)", Outcome.WRONG, 0.0),
        ("__import__('torch').tensor(0.5)", Outcome.WRONG, 0.5),
    ],
)
def test_what_it_returns_is_a_verdict(returned: str, outcome: Outcome, score: float) -> None:
    verdict = verify(item(f"return {returned}"), "x")
    assert (verdict.outcome, verdict.score) == (outcome, score)


def test_it_is_given_the_response_the_prompt_and_the_rows_columns() -> None:
    body = "return (response, answer, prompt, unit) == ('42 m', '42', '6*7?', 'm')"
    assert verify(item(body, "response, answer, prompt, unit", unit="m"), "42 m").right
    assert verify(item("return sorted(rest) == ['answer', 'domain', 'id', 'prompt']", "response, **rest"), "x").right


@pytest.mark.parametrize(
    ("body", "signature", "said"),
    [
        ("return 'yes'", "response, answer", "returned 'yes', expected True, False or a number from 0 to 1"),
        ("return None", "response, answer", "returned None, expected"),
        ("return 1.5", "response, answer", "returned 1.5, expected"),
        ("return float('nan')", "response, answer", "returned nan, expected"),
        ("return True", "response, unit", "takes unit, which these rows lack"),
        (
            "return undefined",
            "response, answer",
            "raised NameError: .* on a response, and on the item's own answer too",
        ),
    ],
)
def test_a_wrong_function_stops_with_its_line(body: str, signature: str, said: str) -> None:
    with pytest.raises(OperatorFailed, match=f"verifier operator check.py:check {said}.*check.py:"):
        verify(item(body, signature), "x")


def test_a_response_that_breaks_a_function_which_can_judge_the_answer_is_wrong() -> None:
    broken = item("return int(response) == int(answer)")
    right, wrong, odd = verify_all([(broken, "42"), (broken, "41"), (broken, "forty-two")])
    assert right.right
    assert wrong.outcome is odd.outcome is Outcome.WRONG
    assert odd.detail.startswith("check.py:check raised ValueError on it at check.py:2: invalid literal for int()")
    assert odd.raised and not (right.raised or wrong.raised)


def test_a_function_with_the_slots_own_signature() -> None:
    text = (
        "from components.contract.params import Params\nfrom components.tasks.verify import RIGHT, wrong\n"
        "class C(Params):\n    word: str = 'x'\n"
        "def check(item, response, *, config: C):\n    return RIGHT if config.word in response else wrong('no word')\n"
        "def bad(item, response): return True\n"
    )
    code = OperatorCode(file="check.py", files={"check.py": text})
    library.keep([code])
    own = item("...").model_copy(update={"verifier": code.name("check"), "data": {"settings": {"word": "y"}}})
    assert verify(own, "yes").right
    assert verify(own, "x").detail == "no word"
    with pytest.raises(OperatorFailed, match=r"verifier check\.py:bad returned True, expected a Verdict"):
        verify(own.model_copy(update={"verifier": code.name("bad"), "data": {}}), "x")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return response == answer", None),
        ("return response.split('####')[-1].strip() == answer", None),
        ("return response.startswith('#### ') and response[5:] == answer", None),
        ("return True", "accepts_wrong"),
        ("return False", "rejects_reference"),
    ],
)
def test_curation_proves_it_on_the_answer_in_the_form_that_it_reads(body: str, reason: str | None) -> None:
    check = Verifiability(VerifiabilityConfig(), seed=0)
    draft = Candidate(id="c", domain="d", source=0, item=item(body))
    assert check.reject(draft) == reason


@pytest.mark.parametrize(("returned", "score"), [("1.0", 1.0), ("{'score': 0.25, 'acc': False}", 0.25)])
def test_verls_compute_score_runs_by_its_own_names(returned: str, score: float) -> None:
    body = "assert (data_source, solution_str, ground_truth) == ('d', 'mine', '42') and extra_info['split'] == 'x'"
    signature = "data_source, solution_str, ground_truth, extra_info=None"
    verdict = verify(item(f"{body}\n    return {returned}", signature, split="x"), "mine")
    assert verdict.score == score


def test_sys_exit_in_a_verifier_is_a_wrong_verdict_with_its_line() -> None:
    verdict = verify(item("if response == 'bad': __import__('sys').exit(3)\n    return True"), "bad")
    assert verdict.outcome is Outcome.WRONG
    assert "called sys.exit(3)" in verdict.detail
    assert "check.py:2" in verdict.detail
