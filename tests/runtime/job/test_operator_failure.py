"""Failures that come out of an operator, of the tree or of a user's file: one line, and whether they come again."""

from __future__ import annotations

import pytest

from components.contract.errors import InputError, OperatorFailed
from components.contract.operator_files import library
from components.contract.operator_files.code import OperatorCode
from components.contract.operators import Bound, OperatorSpec
from components.rl.slots import FILTER, REWARD
from components.runtime.job.operator_failure import by_stage, failure_of, raised_by


def raised(bound: Bound, *arguments: object) -> Exception:
    with pytest.raises(Exception) as caught:
        bound(*arguments)
    return caught.value


def test_an_operator_of_the_tree_is_named_with_its_line() -> None:
    bound = OperatorSpec(name="dynamic_sampling").resolve(FILTER)
    error = raised(bound, None, None, None)
    assert isinstance(error, AttributeError), "its type stays: others may wait for it"
    assert raised_by(error) is bound
    failure = failure_of(bound, error)
    assert str(failure).startswith("filter operator 'dynamic_sampling' raised AttributeError: 'NoneType' object has no")
    assert ", at components/rl/operators/filters/dynamic_sampling.py:" in str(failure)
    assert failure.edit is None, "no user is told to edit posttrain"


def test_the_innermost_operator_is_named_also_behind_another_error() -> None:
    code = OperatorCode(
        file="mine.py",
        files={
            "mine.py": "import inner\ndef outer(batch, context): return batch()\n"
            "def own(batch, context): return inner.f()\n",
            "inner.py": "def f():\n    raise KeyError('a')\n",
        },
        path="rewards/mine.py",
    )
    library.keep([code])
    own, outer = (OperatorSpec(name=code.name(name)).resolve(REWARD) for name in ("own", "outer"))
    error = raised(outer, lambda: own(None, None), None)
    assert raised_by(error) is own
    wrapped = ValueError("the loop's own words")
    wrapped.__cause__ = error
    assert raised_by(wrapped) is own
    failure = by_stage("rl", failure_of(own, error), "logs/rl.log")
    assert str(failure) == (
        "stage 'rl': reward operator rewards/mine.py:own raised KeyError: 'a', at rewards/inner.py:2; "
        "its log has the traceback: logs/rl.log"
    )
    assert (failure.edit, failure.raised) == ("rewards/inner.py:2", error)


def test_what_is_already_said_for_people_stays_as_it_is() -> None:
    code = OperatorCode(
        file="mine.py",
        files={
            "mine.py": "from components.contract.errors import InputError\ndef f(b, c): ...\n"
            "def g(batch, context): raise InputError('no such column')\n"
        },
    )
    library.keep([code])
    error = raised(OperatorSpec(name=code.name("g")).resolve(REWARD), None, None)
    assert isinstance(error, InputError) and raised_by(error) is None
    loop: OperatorFailed = OperatorFailed("x")
    loop.__cause__ = loop
    assert raised_by(loop) is None, "a cause that goes in a circle ends"
