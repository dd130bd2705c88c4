"""Problems of mathematics with one final answer."""

from __future__ import annotations

from typing import Any

from components.contract.errors import InputError
from components.tasks.answers import extract_answer
from components.tasks.published.reading import Reading, Row, asked, optional_text, parsed, text, truth
from components.tasks.source import SourceRow
from components.tasks.verify import SETTINGS

DAPO_BEFORE = "Solve the following math problem step by step."
DAPO_AFTER = 'Remember to put your answer on its own line after "Answer:".'
NO_ANSWER = frozenset({"proof", "notfound", ""})


def gsm8k(where: str, row: Row, reading: Reading) -> SourceRow:
    """Read `question` and `answer`, whose last line is `#### 42`."""
    solution = text(row, "answer")
    if "####" not in solution:
        raise InputError("the answer has no line with ####")
    return _problem(where, text(row, "question"), extract_answer(solution), reading, response=solution)


def competition(where: str, row: Row, reading: Reading) -> SourceRow:
    r"""Read `problem` and `solution`, whose answer stands in \boxed{}; `level` and `type` stay with the row."""
    solution = text(row, "solution")
    if "boxed" not in solution:
        raise InputError("the solution has no boxed answer")
    extras = {"level": optional_text(row, "level"), "subject": optional_text(row, "type")}
    return _problem(where, text(row, "problem"), extract_answer(solution), reading, response=solution, extras=extras)


def dapo(where: str, row: Row, reading: Reading) -> SourceRow:
    """Read the problem out of DAPO's instruction, which asks for a line `Answer:`, and its `ground_truth`."""
    prompt = asked(row).strip()
    if prompt.startswith(DAPO_BEFORE):
        prompt = prompt.partition("\n\n")[2]
    return _problem(where, prompt.removesuffix(DAPO_AFTER).strip(), text(truth(row), "ground_truth"), reading)


def numina(where: str, row: Row, reading: Reading) -> SourceRow:
    """Read `problem`, `answer` and `solution`; proofs and problems that were found invalid are bad rows."""
    answer = text(row, "answer").strip()
    if answer.lower() in NO_ANSWER:
        raise InputError(f"its answer is {answer!r}: there is nothing to verify against")
    for key in ("problem_is_valid", "solution_is_valid"):
        if row.get(key) not in (None, "Yes"):
            raise InputError(f"{key} is {str(row[key])[:20]!r}")
    extras = {"subject": optional_text(row, "problem_type"), "origin": optional_text(row, "source")}
    response = optional_text(row, "solution") or None
    return _problem(where, text(row, "problem"), answer, reading, response=response, extras=extras)


def skywork(where: str, row: Row, reading: Reading) -> SourceRow:
    """Read the problem and `ground_truth`, a JSON list of answers of which any is right; rows with several are bad."""
    answers = parsed(truth(row), "ground_truth")
    if not isinstance(answers, list) or len(answers) != 1 or not isinstance(answers[0], str):
        raise InputError("expected one answer in ground_truth")
    if not answers[0].strip():
        raise InputError("the answer is empty")
    about = row.get("extra_info")
    failures = about.get("model_difficulty") if isinstance(about, dict) else None
    extras = {"failures_of_16": failures} if isinstance(failures, dict) else {}
    return _problem(where, asked(row), answers[0], reading, extras=extras)


def _problem(
    where: str,
    prompt: str,
    answer: str,
    reading: Reading,
    *,
    response: str | None = None,
    extras: dict[str, Any] | None = None,
) -> SourceRow:
    if not prompt.strip():
        raise InputError("no problem")
    if not answer.strip():
        raise InputError("no answer")
    data = {SETTINGS: dict(reading.settings)} if reading.settings else {}
    kept = {key: value for key, value in (extras or {}).items() if value}
    return SourceRow(
        where, prompt=prompt, answer=answer, verifier=reading.verifier, data=data, response=response, extras=kept
    )
