"""The registry: lazy, refuses duplicates, answers unknown names, takes third parties' entry points."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from components.contract.errors import InputError, UnknownName
from components.contract.names import Registry
from components.contract.operators import OperatorSpec
from components.contract.params import Params
from components.contract.registry import components, operators
from tests.support.small_project import write_pyproject


def test_a_target_is_imported_at_first_use_only() -> None:
    registry = Registry("thing")
    registry.add("gone", "no.such.module:attribute", origin="test")
    assert registry.names() == ["gone"]
    with pytest.raises(InputError, match=r"thing 'gone' \(registered by test\): cannot load no.such.module:attribute"):
        registry.get("gone")


def test_a_second_target_for_a_name_is_refused_naming_both_origins() -> None:
    registry = Registry("thing")
    registry.add("a", "json:loads", origin="package one 1.0")
    registry.add("a", "json:loads", origin="package two 2.0")
    with pytest.raises(InputError, match=r"json:loads by package one 1.0, and json:dumps by package two 2.0"):
        registry.add("a", "json:dumps", origin="package two 2.0")
    assert registry.get("a")("[1]") == [1]


def test_an_unknown_name_gets_the_near_miss_and_the_list() -> None:
    registry = Registry("thing")
    registry.add("group-mean", "json:loads")
    registry.add("leave-one-out", "json:dumps")
    with pytest.raises(UnknownName) as caught:
        registry.get("group-maen")
    assert str(caught.value) == (
        "unknown thing 'group-maen'; did you mean 'group-mean'? (known: group-mean, leave-one-out)"
    )


def test_the_origin_of_a_registration_is_file_and_line() -> None:
    registry = Registry("thing")
    registry.add("a", "json:loads")
    assert registry.entry("a").origin.startswith(f"{__file__}:")


def test_all_components_load_and_document_every_parameter() -> None:
    names = components().names()
    assert {"pretrain", "curate", "sft", "rl", "replay", "select", "evaluate"} <= set(names)
    for name in names:
        component = components().get(name)
        assert component.name == name
        assert all(field.description for field in component.params.model_fields.values())


def test_unknown_slot_is_answered_with_the_slots() -> None:
    with pytest.raises(UnknownName, match="did you mean 'advantage'"):
        operators("advantages")


class _Config(Params):
    scale: float = 1.0
    """How much."""


def scaled(value: float, *, config: _Config) -> float:
    return value * config.scale


def test_an_operator_is_called_with_its_validated_config(monkeypatch: pytest.MonkeyPatch) -> None:
    operators("advantage").add("scaled-for-test", f"{__name__}:scaled", origin="test")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[scaled.__module__])
    bound = OperatorSpec.model_validate({"name": "scaled-for-test", "scale": 3}).resolve("advantage")
    assert bound(2.0) == 6.0
    with pytest.raises(InputError, match=r"advantage operator 'scaled-for-test': scal: .*\(parameters: scale\)"):
        OperatorSpec.model_validate({"name": "scaled-for-test", "scal": 3}).resolve("advantage")


PLUGIN = """
from components.contract.params import Params
class Config(Params):
    pass
def verify(item, response, *, config: Config):
    return "theirs"
"""


def test_a_third_party_package_plugs_in_through_entry_points(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    (source / "their_plugin.py").write_text(PLUGIN)
    layout, target = 'py-modules = ["their_plugin"]', "their_plugin:verify"
    write_pyproject(source, "their-plugin", "verifier.theirs", target, layout, version="1.2")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*install, "--target", str(site), str(source)], check=True, capture_output=True)
    probe = (
        "from components.contract.registry import operators;"
        "r = operators('verifier'); print(r.entry('theirs').origin, r.get('theirs')(1, 2, config=None))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", probe], env={"PYTHONPATH": f"{root}:{site}"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "package their-plugin 1.2 theirs"
