"""A reward or a verifier tried on rows: what it says of each completion, and whether it tells right from wrong."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.errors import InputError, PosttrainError, UnknownName
from components.contract.operator_files import library
from components.contract.operator_files.declared import declared_function
from components.contract.operator_files.gather import read_code
from components.contract.operator_files.names import WrittenName, travel_name, written_name
from components.contract.operator_files.operator import FileOperator
from components.contract.operators import Bound, OperatorSpec
from components.contract.registry import operators
from components.contract.slots import Slot
from components.rl.slots import REWARD
from components.tasks.slots import VERIFIER
from pipelines.language.document import display_path
from pipelines.trial.rows import ANSWER, WRONG, Case, Read, read_cases


@dataclass(frozen=True)
class Judged:
    """What the operator said of one case."""

    case: Case
    value: float
    reason: str = ""
    failed: bool = False
    """Whether there is no judgement: the row is broken, or the verifier."""


@dataclass(frozen=True)
class Trial:
    """An operator on rows."""

    slot: Slot
    operator: str
    """As messages show it."""
    judged: tuple[Judged, ...]
    printed: str
    """What the operator printed."""
    takes: tuple[str, ...]
    """Columns of the rows, beside prompt and answer, that its function takes by name."""

    takes_ids: bool = False
    """Whether its function takes `completion_ids`, which are bytes here, for want of a tokenizer."""

    @property
    def is_verifier(self) -> bool:
        """Return whether it judges right and wrong; a reward gives numbers."""
        return self.slot == VERIFIER

    def of(self, is_what: str) -> list[Judged]:
        """Return what was said of the answers, or of the wrong ones."""
        return [one for one in self.judged if one.case.is_what == is_what]

    @property
    def told_apart(self) -> int:
        """Return in how many rows the answer got more than the wrong one."""
        return sum(
            right.value > wrong.value and not (right.failed or wrong.failed)
            for right, wrong in zip(self.of(ANSWER), self.of(WRONG), strict=True)
        )

    @property
    def is_sound(self) -> bool:
        """Return False for a verifier that fails, refuses an answer or accepts a wrong one."""
        refuses = any(one.value < 1 for one in self.of(ANSWER))
        accepts = any(one.value >= 1 for one in self.of(WRONG))
        return not (self.is_verifier and (refuses or accepts or any(one.failed for one in self.judged)))


def try_operator(operator: str, settings: Mapping[str, Any], read: Read) -> Trial:
    """Run an operator on rows. Raises InputError for an operator, a setting or a row that is wrong, and OperatorFailed,
    with the file and line of the function, for one that raises or returns something wrong.
    """
    name, slot = _named(operator)
    spec = OperatorSpec.model_validate({**settings, "name": name}).in_slot(slot)
    bound = spec.resolve()
    cases = read_cases(read, spec if slot == VERIFIER else OperatorSpec(name="exact").in_slot(VERIFIER))
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        judged = _verify(cases) if slot == VERIFIER else _reward(bound, cases)
    taken = bound.file.function.by_name if bound.file else frozenset()
    columns = sorted({name for case in cases for name in case.item.data if name in taken})
    return Trial(slot, bound.shown, tuple(judged), said.getvalue(), tuple(columns), "completion_ids" in taken)


def _named(operator: str) -> tuple[str, Slot]:
    """Return the name by which the registry finds an operator, and its slot."""
    if written := written_name(operator):
        return _from_file(written)
    if travel_name(operator) is None and operator in operators(VERIFIER):
        return operator, VERIFIER
    if travel_name(operator) is None and operator in operators(REWARD):
        raise InputError(
            f"reward {operator!r} reads a whole batch of sampled tokens, which rows of text do not make; `try` "
            f"takes verifiers ({', '.join(operators(VERIFIER).names())}) and functions in files (./my_reward.py:reward)"
        )
    raise UnknownName("verifier", operator, operators(VERIFIER).names(), "a function in a file: ./my_reward.py:reward")


def _from_file(written: WrittenName) -> tuple[str, Slot]:
    path = Path(written.path).expanduser()
    code = read_code(path.absolute(), display_path(path))
    function = declared_function(code, written.function)
    library.keep([code])
    where = f"{code.shown()}:{function.line}"
    if "completions" in function.by_name:
        return code.name(written.function), REWARD
    if {"response", "solution_str"} & function.by_name:
        return code.name(written.function), VERIFIER
    if function.positional[:1] == ("batch",):
        raise InputError(
            f"{where}: {function.name} takes a whole batch of sampled tokens, which rows of text do not make; "
            "`try` takes rewards (completions, prompts, **columns) and verifiers (response, answer, **columns)"
        )
    raise InputError(
        f"{where}: {function.name} takes neither `completions`, as a reward does, nor `response`, as a verifier does"
    )


def _verify(cases: Sequence[Case]) -> list[Judged]:
    from components.tasks.verify import verify_all

    verdicts = verify_all((case.item, case.completion) for case in cases)
    return [
        Judged(case, verdict.score, verdict.detail or verdict.outcome.value, verdict.failed)
        for case, verdict in zip(cases, verdicts, strict=True)
    ]


def _reward(bound: Bound, cases: Sequence[Case]) -> list[Judged]:
    from components.rl.batch.completions import numbers

    operator = bound.function
    assert isinstance(operator, FileOperator)
    try:
        returned = operator.call_by_name(_columns(cases))
    except PosttrainError:
        raise
    except Exception as error:
        raise operator.raised(error) from error
    values = numbers(operator, returned, len(cases))
    if all(map(math.isnan, values)):
        raise operator.failed("returned nan for every row: it judged none")
    return [_valued(case, value) for case, value in zip(cases, values, strict=True)]


def _valued(case: Case, value: float) -> Judged:
    """Return a reward's judgement; nan is none, as in training."""
    return Judged(case, 0.0, "returned nan", failed=True) if math.isnan(value) else Judged(case, value)


def _columns(cases: Sequence[Case]) -> dict[str, list[Any]]:
    """Return what a reward function may take by name: as in training, with bytes for tokens."""
    from components.rl.batch.completions import exchange

    names = dict.fromkeys(name for case in cases for name in case.item.data)
    pairs = [exchange(case.item, (case.completion,)) for case in cases]
    return {
        **{name: [case.item.data.get(name) for case in cases] for name in names},
        **{name: [getattr(case.item, name) for case in cases] for name in ("answer", "id", "domain")},
        "prompts": [prompt for prompt, _ in pairs],
        "completions": [completion for _, completion in pairs],
        "completion_ids": [list(case.completion.encode("utf-8", "surrogatepass")) for case in cases],
    }
