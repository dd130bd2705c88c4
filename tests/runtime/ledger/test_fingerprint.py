"""Fingerprints: what invalidates a stage, and what must not."""

from __future__ import annotations

import dataclasses
import importlib
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from components.contract.component import Component
from components.contract.job import Resources
from components.runtime.ledger.fingerprint import fingerprint

FILES = {
    "house/__init__.py": "",
    "house/stage/__init__.py": "",
    "house/stage/component.py": """
        from components.contract.artifacts import ArtifactType
        from components.contract.component import Component, Port
        from components.contract.params import Params
        from house.stage.params import StageParams
        def advice(params, makers):
            yield "a remark"
        def memory(params, model, resources):
            return None
        COMPONENT = Component(name="stage", summary="s", inputs={}, params=StageParams, run="house.stage.run:run",
            outputs={"out": Port(type=ArtifactType.DATASET, doc="d")}, advice=advice, memory=memory,
            sources=lambda params: [f"house.operators.{params.operator}"])
        """,
    "house/stage/params.py": """
        from typing import ClassVar
        from pydantic import Field, field_validator
        from components.contract.params import Params
        class Inner(Params):
            ratio: float = 0.5
            '''Of what.'''
        class StageParams(Params):
            scale: ClassVar[int] = 1
            steps: int = 3
            '''How many.'''
            operator: str = "one"
            '''Which.'''
            inner: Inner = Inner()
            '''More.'''
            hidden: int = Field(default=1, ge=0, exclude=True)
            '''In no dump.'''
            @field_validator("steps")
            @classmethod
            def _bounded(cls, value):
                return 0 if value < 0 else value
            @property
            def rounds(self):
                return 2 * self.steps
        """,
    "house/stage/run.py": """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from house import typing_only
        def run(stage):
            from house.library import deep
        """,
    "house/library.py": "from . import deeper as deep\n",
    "house/deeper.py": "VALUE = 1\n",
    "house/typing_only.py": "",
    "house/unrelated.py": "",
    "house/operators/__init__.py": "",
    "house/operators/one.py": "",
    "house/operators/two.py": "",
}


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "house"]:
        del sys.modules[name]


def mark(params: dict[str, Any] | None = None, inputs: Any = None, seed: int = 0) -> str:
    component: Component = importlib.import_module("house.stage.component").COMPONENT
    return fingerprint(component, component.params.model_validate(params or {}), inputs or {}, seed).digest


def test_a_default_written_out_changes_nothing(house: Path) -> None:
    assert mark() == mark({"steps": 3})


def test_parameters_inputs_and_seed_change_it(house: Path) -> None:
    variants = [mark(), mark({"steps": 4}), mark(seed=1), mark(inputs={"a": ["x"]}), mark(inputs={"b": ["x"]})]
    variants += [mark(inputs={"a": ["x", "y"]}), mark(inputs={"a": ["y", "x"]})]
    assert len(set(variants)) == len(variants)


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))


@pytest.mark.parametrize(
    "name",
    [
        "__init__.py",
        "stage/__init__.py",
        "stage/run.py",
        "stage/params.py",
        "library.py",
        "deeper.py",
        "operators/one.py",
    ],
)
def test_editing_what_the_stage_runs_changes_it(house: Path, name: str) -> None:
    before = mark()
    path = house / "house" / name
    path.write_text(path.read_text() + "\nEDITED = 1\n")
    assert mark() != before


@pytest.mark.parametrize("name", ["stage/component.py", "typing_only.py", "unrelated.py", "operators/two.py"])
def test_editing_what_it_does_not_run_changes_nothing(house: Path, name: str) -> None:
    before = mark()
    with (house / "house" / name).open("a") as code:
        code.write("\nEDITED = 1\n")
    assert mark() == before


def test_words_that_only_people_read_change_nothing(house: Path) -> None:
    before = mark()
    for path in house.rglob("*.py"):
        path.write_text(f'"""Reworded."""\n\n\n# reworded, too\n{path.read_text()}\n# at the end\n')
    edit(house / "house/stage/params.py", "How many.", "The number of steps.")
    assert mark() == before


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        ("steps: int = 3", "steps: int = Field(default=3, ge=1)", False),
        ("return 2 * self.steps", "return 3 * self.steps", True),
        ("0 if value < 0", "0 if value < -1", True),
        ("scale: ClassVar[int] = 1", "scale: ClassVar[int] = 2", True),
        ("ge=0, exclude=True", "ge=1, exclude=True", True),
        ("ratio: float = 0.5", "ratio: float = 0.25", True),
    ],
)
def test_of_the_parameters_their_code_counts_and_not_their_fields(
    house: Path, before: str, after: str, counts: bool
) -> None:
    """The values of its fields are in the fingerprint; those of a class that it holds may be made by code, too."""
    was = mark()
    edit(house / "house/stage/params.py", before, after)
    assert (mark({"inner": {"ratio": 0.5}}) != was) is counts


@pytest.mark.parametrize(
    ("before", "after"),
    [('summary="s"', 'summary="t"'), ('doc="d"', 'doc="e"'), ('"a remark"', '"advice"'), ("return None", "return 2.0")],
)
def test_the_declaration_beside_the_parameters_does_not_count(house: Path, before: str, after: str) -> None:
    was = mark()
    edit(house / "house/stage/component.py", before, after)
    assert mark() == was


def test_another_operator_is_other_code(house: Path) -> None:
    component = importlib.import_module("house.stage.component").COMPONENT
    files = fingerprint(component, component.params(operator="two"), {}, 0).parts["code"]
    assert "house/operators/two.py" in files
    assert "house/operators/one.py" not in files


def test_the_walls_are_left_out(house: Path) -> None:
    component = importlib.import_module("house.stage.component").COMPONENT
    assert all(path.startswith("house/") for path in fingerprint(component, component.params(), {}, 0).parts["code"])


def test_backends_count_where_they_are_used_and_are_not_the_defaults(house: Path) -> None:
    plain = importlib.import_module("house.stage.component").COMPONENT
    trains = dataclasses.replace(plain, backends=frozenset({"trainer"}))
    two = Resources(trainer="deepspeed", processes=2)

    def found(component: Component, resources: Resources | None) -> Any:
        return fingerprint(component, component.params(), {}, 0, resources)

    default = found(plain, None)
    assert "backends" not in default.parts
    assert found(trains, Resources(pool="large", cpus=8, memory_gib=64, gpus=1)).digest == default.digest
    assert found(plain, two).digest == default.digest
    assert found(trains, two).parts["backends"] == {"trainer": "deepspeed", "zero_stage": 2, "processes": 2}
    assert found(trains, two).digest != found(trains, Resources(trainer="deepspeed", processes=4)).digest
