"""Functions in files as operators: what fits a slot, their settings, and how they run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError, OperatorFailed
from components.contract.operator_files import library
from components.contract.operator_files.code import OperatorCode
from components.contract.operator_files.gather import read_code
from components.contract.operator_files.names import plain_name, travel_name, without_digests, written_name
from components.contract.operators import Bound, OperatorSpec
from components.rl.slots import FILTER, OBJECTIVE, REWARD, SAMPLER
from components.tasks.slots import DEMONSTRATOR, SOURCE, VERIFIER


def bound(slot: Any, text: str, function: str = "f", **settings: Any) -> Bound:
    code = OperatorCode(file="mine.py", files={"mine.py": text}, path="recipes/mine.py")
    library.keep([code])
    return OperatorSpec.model_validate({"name": code.name(function), **settings}).resolve(slot)


@pytest.mark.parametrize(
    ("slot", "signature"),
    [
        (REWARD, "completions, **columns"),
        (REWARD, "completions, prompts, answer"),
        (REWARD, "**everything"),
        (REWARD, "*, completions"),
        (REWARD, "batch, context"),
        (VERIFIER, "response, answer, **columns"),
        (VERIFIER, "item, response"),
        (FILTER, "batch, more, context"),
        (FILTER, "batch, _more, _context"),
        (SAMPLER, "pool, count, context"),
        (OBJECTIVE, "scores, batch, context"),
        (SOURCE, "request"),
        (DEMONSTRATOR, "item, rng, extra=1"),
    ],
)
def test_signatures_that_fit(slot: Any, signature: str) -> None:
    assert bound(slot, f"def f({signature}): ...").slot is slot


@pytest.mark.parametrize(
    ("slot", "signature", "said"),
    [
        (REWARD, "texts", r"recipes/mine\.py:1: f does not fit the slot reward: expected \(completions, prompts"),
        (
            FILTER,
            "completions, **columns",
            r"not fit the slot filter: expected \(batch, more, context, \*, config",
        ),
        (VERIFIER, "item", "does not fit the slot verifier"),
        (SAMPLER, "pool, count, context, extra", "does not fit the slot sampler"),
        (REWARD, "batch, context, *, config", r"mine\.py:1: its config has no annotation; write config: RewardConfig"),
        (REWARD, "batch, context, *, config: Nothing", "Nothing is neither a class of this file nor a Params class"),
    ],
)
def test_signatures_that_do_not_fit_are_named_with_their_line(slot: Any, signature: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        bound(slot, f"def f({signature}): ...")


def test_an_unknown_function_gets_the_nearest_name() -> None:
    with pytest.raises(InputError, match="no function 'brevty' at its top level; did you mean 'brevity'"):
        bound(REWARD, "def brevity(completions): ...", "brevty")
    with pytest.raises(InputError, match="f is async"):
        bound(REWARD, "async def f(batch, context, *, config: RewardConfig): ...")
    with pytest.raises(InputError, match="f is a class"):
        bound(REWARD, "class f: ...")


SETTINGS = """
from typing import ClassVar, Literal
from pydantic import Field, field_validator
from components.rl.configs import RewardConfig

raise_at_import = False

class Base(RewardConfig):
    limit: int = Field(default=10, ge=1)
    '''Limit.'''

class Config(Base):
    reads: ClassVar[frozenset[str]] = frozenset({"pass_rate_s"})
    word: Literal["a", "b"] = "a"
    '''Word.'''
    sizes: tuple[int, ...] = (1, 2)
    '''Sizes.'''
    name: str | None = None
    '''Name.'''

    @field_validator("limit")
    @classmethod
    def _even(cls, value):
        if value % 2:
            raise ValueError("odd")
        return value

    def double(self):
        return 2 * self.limit

def f(batch, context, *, config: Config):
    return config.double(), config.word, config.weight
"""


def test_settings_are_checked_without_running_the_file_and_reach_it_as_its_own_class() -> None:
    found = bound(REWARD, SETTINGS, limit=4, weight=0.5)
    assert found.config.model_dump() == {"weight": 0.5, "limit": 4, "word": "a", "sizes": (1, 2), "name": None}
    assert type(found.config).reads == {"pass_rate_s"}, "what a step prepares is known when it is planned"
    assert found(None, None) == (8, "a", 0.5)
    for wrong, said in [({"limit": 0}, "limit"), ({"word": "c"}, "word"), ({"limt": 1}, "limt")]:
        with pytest.raises(InputError, match=said):
            bound(REWARD, SETTINGS, **wrong)


def test_its_own_validators_run_in_the_stage() -> None:
    with pytest.raises(ValueError, match="odd"):
        bound(REWARD, SETTINGS, limit=3)(None, None)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("when: datetime = None", r"mine\.py:4: the type of setting 'when' is datetime, which cannot be checked"),
        ("limit: int = compute()", r"mine\.py:4: limit: its value compute\(\) is no literal"),
    ],
)
def test_settings_that_only_running_could_tell_are_refused(field: str, said: str) -> None:
    text = f"from components.contract.params import Params\n\nclass C(Params):\n    {field}\n\n"
    with pytest.raises(InputError, match=said):
        bound(VERIFIER, f"{text}def f(item, response, *, config: C): ...")


def test_a_config_of_another_slot_is_refused() -> None:
    text = "from components.contract.params import Params\nclass C(Params):\n    pass\n"
    with pytest.raises(InputError, match=r"C must be a subclass of components\.rl\.configs\.RewardConfig"):
        bound(REWARD, f"{text}def f(batch, context, *, config: C): ...")


def test_planning_runs_nothing_and_the_call_does(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    found = bound(FILTER, f"open({str(mark)!r}, 'w').close()\ndef f(batch, more, context): return batch + 1\n")
    assert not mark.exists()
    assert found(1, None, None) == 2
    assert mark.exists()


def test_equally_named_files_beside_different_operators_do_not_meet(tmp_path: Path) -> None:
    results = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "words.py").write_text(f"limit = {number}\n")
        (folder / "mine.py").write_text(
            "from __future__ import annotations\nimport words\nfrom words import limit\nfrom . import words as again\n"
            "def f(batch, more, context): return words.limit, limit, again.limit\n"
        )
        code = read_code(folder / "mine.py")
        library.keep([code])
        results.append(OperatorSpec(name=code.name("f")).resolve(FILTER)(None, None, None))
    assert results == [(1, 1, 1), (2, 2, 2)]
    assert "words" not in sys.modules


def test_an_error_says_operator_and_line_and_whether_it_comes_again() -> None:
    found = bound(FILTER, "def f(batch, more, context):\n    return 1 / batch\n")
    with pytest.raises(ZeroDivisionError) as caught:
        found(0, None, None)
    assert found.file is not None
    failure = found.file.raised(caught.value)
    assert str(failure) == (
        "filter operator recipes/mine.py:f raised ZeroDivisionError: division by zero, at recipes/mine.py:2"
    )
    assert failure.edit == "recipes/mine.py:2"
    away = found.file.raised(ConnectionError("refused"))
    assert away.edit is None, "a service that is away may be back"


def test_control_characters_of_an_error_do_not_reach_the_message() -> None:
    found = bound(FILTER, "def f(batch, more, context): ...")
    assert found.file is not None
    assert "\x1b" not in str(found.file.raised(ValueError("\x1b]0;owned\x07 bad")))


def test_without_its_file_an_operator_says_what_would_bring_it() -> None:
    with pytest.raises(InputError, match="came neither with this job nor lies in this store"):
        OperatorSpec(name=f"mine.py:f@{'0' * 64}").resolve(REWARD)
    with pytest.raises(InputError, match=r"a file is named in a recipe, as \./file\.py:function"):
        OperatorSpec(name="./mine.py:f").resolve(REWARD)


def test_code_under_the_digest_of_other_code_is_not_taken() -> None:
    good, bad = (OperatorCode(file="mine.py", files={"mine.py": text}) for text in ("x = 1", "x = 2"))
    library.look_in({good.digest: bad}.get)
    assert library.find(good.digest) is None
    library.look_in(lambda digest: None)


@given(st.text(max_size=60))
def test_names_are_read_or_left_alone(text: str) -> None:
    name = f"a.py:f@{'1' * 64}"
    assert travel_name(name) is not None
    assert plain_name(name) == "a.py:f"
    assert without_digests(f"{text} {name}").endswith("a.py:f@111111111111")
    if travel_name(text) is None:
        assert plain_name(text) == text


def test_what_is_a_file_and_what_is_not() -> None:
    written = written_name("../own rewards/my.py:f")
    assert written is not None
    assert (written.path, written.function) == ("../own rewards/my.py", "f")
    for other in ("verifier", "components.rl.batch:f", "s3://bucket/rows.jsonl", "a.py", "a.py:f@12", "x: y.py"):
        assert written_name(other) is None


def test_an_operator_that_fails_names_itself() -> None:
    found = bound(FILTER, "def f(batch, more, context): ...")
    failure = found.failed("returned an int, expected a Batch")
    assert isinstance(failure, OperatorFailed)
    assert str(failure) == ("filter operator recipes/mine.py:f returned an int, expected a Batch (recipes/mine.py:1)")
