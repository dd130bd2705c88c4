"""posttrain try: a reward or a verifier on rows."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from components.contract.errors import InputError
from components.contract.terminal import visible_line
from pipelines.cli.output import print_json, print_table
from pipelines.trial.rows import ANSWER, WRONG, Read
from pipelines.trial.trial import Judged, Trial, try_operator

MAX_CELL = 40
MAX_PRINTED_LINES = 20


def try_rows(arguments: argparse.Namespace) -> int:
    """Print what an operator says of rows; the exit code is 1 for a verifier that is wrong about any of them."""
    read = Read(
        path=arguments.data,
        limit=arguments.limit,
        prompt=arguments.prompt,
        answer=arguments.answer,
        completions=arguments.completions,
        final_answer=arguments.final_answer,
    )
    trial = try_operator(arguments.operator, _settings(arguments.settings), read)
    if arguments.json:
        print_json(_trial_json(trial))
    else:
        _print(trial)
    return 0 if trial.is_sound else 1


def _settings(given: Sequence[str]) -> dict[str, Any]:
    import yaml

    settings = {}
    for text in given:
        key, mark, value = text.partition("=")
        if not mark or not key.isidentifier():
            raise InputError(f"--with {visible_line(text)[:60]}: expected setting=value")
        try:
            settings[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise InputError(f"--with {visible_line(text)[:60]}: its value is not YAML") from error
    return settings


def _print(trial: Trial) -> None:
    rows = [[*map(_cell, _texts(one)), _value(one), _cell(one.reason, 2 * MAX_CELL)] for one in trial.judged]
    print_table(["row", "prompt", "completion", "which is", "answer", "value", "reason"], rows)
    for line in trial.printed.splitlines()[:MAX_PRINTED_LINES]:
        print(f"printed: {visible_line(line)}")
    print(f"\n{trial.slot} {visible_line(trial.operator)}: {_summary(trial)}")
    if trial.takes_ids:
        print("note: its completion_ids are bytes of the text here; in a run they are the model's tokens")
    if trial.takes:
        print(f"note: it takes {', '.join(trial.takes)}: in a recipe, columns: {{data: [{', '.join(trial.takes)}]}}")


def _texts(one: Judged) -> tuple[str, ...]:
    return one.case.where, one.case.item.prompt, one.case.completion, one.case.is_what, one.case.item.answer


def _value(one: Judged) -> str:
    return "none" if one.failed else f"{one.value:.4g}"


def _cell(text: str, limit: int = MAX_CELL) -> str:
    text = visible_line(text)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _summary(trial: Trial) -> str:
    right, wrong = trial.of(ANSWER), trial.of(WRONG)
    failed = sum(one.failed for one in trial.judged)
    fails = f"; fails on {failed}" if failed else ""
    if not right:
        return f"{_spread(trial.judged)} on {len(trial.judged)} completions{fails}"
    if not trial.is_verifier:
        return (
            f"answers {_spread(right)}, wrong ones {_spread(wrong)}; more for the answer in {trial.told_apart} of "
            f"{len(right)} rows" + ("" if trial.told_apart else ": it does not tell right from wrong") + fails
        )
    accepted = sum(one.value >= 1 for one in right)
    refused = sum(one.value < 1 and not one.failed for one in wrong)
    return f"accepts {accepted} of {len(right)} answers, refuses {refused} of {len(wrong)} wrong ones{fails}"


def _spread(judged: Sequence[Judged]) -> str:
    values = [one.value for one in judged if not one.failed]
    if not values:
        return "none"
    mean = f"{sum(values) / len(values):.3g}"
    return mean if min(values) == max(values) else f"{mean} ({min(values):.3g} to {max(values):.3g})"


def _trial_json(trial: Trial) -> dict[str, Any]:
    return {
        "slot": trial.slot.name,
        "operator": trial.operator,
        "sound": trial.is_sound,
        "told_apart": trial.told_apart if trial.of(ANSWER) else None,
        "rows": [
            {
                "row": one.case.where,
                "prompt": one.case.item.prompt,
                "completion": one.case.completion,
                "is": one.case.is_what,
                "answer": one.case.item.answer,
                "value": None if one.failed else one.value,
                "reason": one.reason,
            }
            for one in trial.judged
        ],
        "printed": trial.printed,
    }
