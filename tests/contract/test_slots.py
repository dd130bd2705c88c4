"""Slots: operators are found by their folder, a field knows its slot by its type, and nothing is guessed by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest

from components.contract.errors import InputError, UnknownName
from components.contract.operators import OperatorSpec, config_of, with_used
from components.contract.params import Params
from components.contract.registry import operators, slots
from components.contract.slots import Slot, operators_in
from components.tasks.slots import DEMONSTRATOR, SOURCE

OPERATOR = """
from components.contract.params import Params
class {config}(Params):
    pass
def {name}(value, *, config: {config}):
    return value
"""


def toy_slot(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, **files: str) -> Slot:
    """A slot of a package of its own, with these files."""
    package = folder / name
    package.mkdir()
    for stem, text in {"__init__": "", **files}.items():
        (package / f"{stem}.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    return Slot(name=name, package=name, summary="A toy")


def test_a_file_of_a_slots_package_is_an_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {name: OPERATOR.format(name=name.strip("_"), config="Config") for name in ("first", "second", "_shared")}
    slot = toy_slot(tmp_path, monkeypatch, "toy_found", **files)
    assert operators(slot).names() == ["first", "second"]
    assert operators(slot).entry("first").origin == "toy_found/first.py"
    assert OperatorSpec(name="first").resolve(slot)(3) == 3
    with pytest.raises(UnknownName, match="unknown toy_found operator 'thrid'"):
        OperatorSpec(name="thrid").resolve(slot)


def test_rooms_of_a_slots_package_hold_operators_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slot = toy_slot(tmp_path, monkeypatch, "toy_rooms", first=OPERATOR.format(name="first", config="Config"))
    room = tmp_path / "toy_rooms" / "inside"
    room.mkdir()
    (room / "__init__.py").write_text("")
    (room / "second.py").write_text(OPERATOR.format(name="second", config="Config"))
    assert operators(slot).names() == ["first", "second"]
    assert operators(slot).entry("second").origin == "toy_rooms/inside/second.py"
    assert OperatorSpec(name="second").resolve(slot)(3) == 3
    (room / "first.py").write_text("")
    twice = Slot(name="twice", package="toy_rooms", summary="A toy")
    operators_in.cache_clear()
    with pytest.raises(InputError, match=r"toy_rooms.first and toy_rooms.inside.first have one name"):
        operators(twice)


def test_a_file_without_the_function_of_its_name_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slot = toy_slot(tmp_path, monkeypatch, "toy_odd", odd=OPERATOR.format(name="other", config="Config"))
    with pytest.raises(InputError, match=r"toy_odd operator 'odd' \(registered by toy_odd/odd.py\): cannot load .*odd"):
        OperatorSpec(name="odd").resolve(slot)
    with pytest.raises(InputError, match="'toy_gone' is no Python package"):
        operators(Slot(name="gone", package="toy_gone", summary="Nowhere"))


def test_an_operator_has_a_config_of_its_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wanted(Params):
        """What configs must be."""

    plain = toy_slot(tmp_path, monkeypatch, "toy_plain", none=OPERATOR.format(name="none", config="None_"),
                     some=OPERATOR.format(name="some", config="Some"))  # fmt: skip
    slot = Slot(name="toy", package=plain.package, summary="A toy", config=Wanted)
    with pytest.raises(InputError, match="toy operator 'some': its config must be a Wanted"):
        OperatorSpec(name="some").resolve(slot)
    assert OperatorSpec(name="none").resolve(slot).name == "none"  # leaves the slot empty


class Nested(Params):
    origin: Annotated[OperatorSpec, SOURCE]
    """Its name does not tell its slot, the type does."""
    writers: Annotated[tuple[OperatorSpec, ...], DEMONSTRATOR] = (OperatorSpec(name="gold"),)
    """A list."""
    maybe: Annotated[OperatorSpec, DEMONSTRATOR] | None = None
    """May be left out."""


class Untold(Params):
    source: OperatorSpec = OperatorSpec(name="artifact")
    """Named as a slot is, but the type says none."""


def nested(*, config: Nested) -> None:
    """Do nothing."""


def untold(*, config: Untold) -> None:
    """Do nothing."""


def test_a_field_knows_its_slot_by_its_type() -> None:
    config = Nested.model_validate({"origin": "artifact", "maybe": "wrong"})
    assert [spec.slot for spec in (config.origin, *config.writers, config.maybe)] == [SOURCE, *[DEMONSTRATOR] * 2]
    assert config.origin == OperatorSpec(name="artifact") and config.model_dump()["origin"] == {"name": "artifact"}
    for function in (nested, untold):
        operators(SOURCE).add(f"{function.__name__}-for-test", f"{__name__}:{function.__name__}", origin="test")
    spec = {"name": "nested-for-test", "origin": "artifact", "maybe": "wrong"}
    bound = OperatorSpec.model_validate(spec).resolve(SOURCE)
    assert [used.name for used in with_used([bound])] == ["nested-for-test", "artifact", "gold", "wrong"]


def test_an_operator_in_a_field_without_a_slot_is_refused() -> None:
    operators(SOURCE).add("untold-for-test", f"{__name__}:untold", origin="test")
    bound = OperatorSpec(name="untold-for-test").resolve(SOURCE)
    with pytest.raises(InputError, match=r"type of field source says no slot for the operator 'artifact'; write Annot"):
        list(with_used([bound]))
    with pytest.raises(InputError, match="'artifact' stands in a field without a slot"):
        OperatorSpec(name="artifact").resolve()


def test_every_file_of_this_trees_slots_is_an_operator() -> None:
    found = [(slot, name) for slot in slots().values() for name in operators(slot).names() if "for-test" not in name]
    for slot, name in found:
        if operators(slot).entry(name).origin.startswith("components/"):
            config_of(operators(slot).get(name), name)
    assert len(found) > 95 and len(slots()) >= 16


def test_the_name_of_another_slots_operator_is_sent_there() -> None:
    with pytest.raises(UnknownName, match="'pass_rates'; it is an operator of slot annotate"):
        operators("advantage").entry("pass_rates")
