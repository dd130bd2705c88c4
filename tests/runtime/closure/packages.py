"""A user's package with a reward, installed in one of the ways that packages are installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.small_project import write_pyproject

ROOT = Path(__file__).parents[3]
REWARD = """
    from components.rl.configs import RewardConfig
    from {helper} import factor
    class BonusConfig(RewardConfig):
        bonus: float = 2.0
        '''Added.'''
    def bonus(batch, context, *, config: BonusConfig):
        return batch.outcomes * factor(3) + config.bonus
    """
HELPER = "def factor(value):\n    return 2 * value\n"
BUILD = """
import sys
from setuptools import build_meta
settings = {{"editable_mode": {mode!r}}} if {mode!r} else None
make = build_meta.build_editable if {editable} else build_meta.build_wheel
print(make({wheels!r}, settings))
"""
PARTS = """
import json, sys
from pathlib import Path
from components.contract.registry import components
from components.runtime.ledger.fingerprint import fingerprint
component = components().get("rl")
params = component.params.model_validate({"rewards": ["bonus"]})
found = [fingerprint(component, params, {}, 0).parts]
for path, before, after in json.loads(sys.argv[1]):
    text = Path(path).read_text()
    assert before in text
    Path(path).write_text(text.replace(before, after, 1))
    found.append(fingerprint(component, params, {}, 0).parts)
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Layout:
    """How a project lays its two modules out."""

    package: str
    """The package of both modules; empty for single files."""
    folder: str
    """Where they lie in the project."""
    setting: str

    def module(self, name: str) -> str:
        """Return the whole name of a module."""
        return f"{self.package}.{name}" if self.package else f"own_{name}"


_PACKAGE = 'packages = ["own"]'
LAYOUTS = {
    "single files": Layout("", ".", 'py-modules = ["own_reward", "own_helper"]'),
    "package": Layout("own", "own", _PACKAGE),
    "namespace package": Layout("own.parts", "own/parts", 'packages = ["own.parts"]'),
    "package in src": Layout("own", "src/own", f'{_PACKAGE}\npackage-dir = {{"" = "src"}}'),
    "package under another name": Layout("own", "code", f'{_PACKAGE}\npackage-dir = {{"own" = "code"}}'),
}
WAYS = {"regular": (False, ""), "editable": (True, "lenient"), "editable, strict": (True, "strict")}


class Installed:
    """The package in a folder of packages of its own, seen by a new interpreter as if it were installed there."""

    def __init__(self, folder: Path, layout: str, way: str) -> None:
        self.layout = LAYOUTS[layout]
        self.project, self.site = folder / "project", folder / "site"
        self.modules = [self.layout.module(name) for name in ("reward", "helper")]
        lies = self.project / self.layout.folder
        lies.mkdir(parents=True)
        texts = textwrap.dedent(REWARD).format(helper=self.modules[1]), HELPER
        for module, text in zip(self.modules, texts, strict=True):
            (lies / f"{module.rpartition('.')[2]}.py").write_text(text)
        if self.layout.package == "own":
            (lies / "__init__.py").touch()
        target = f"{self.modules[0]}:bonus"
        write_pyproject(self.project, "own-reward", "reward.bonus", target, self.layout.setting)
        self.environment = build_and_unpack(folder, way)
        inside = self.site / self.layout.package.replace(".", "/") if way == "regular" else lies
        self.reward, self.helper = (inside / f"{module.rpartition('.')[2]}.py" for module in self.modules)

    def parts(self, *edits: tuple[Path, str, str]) -> list[dict[str, Any]]:
        """Return the parts of the fingerprint of an rl stage with the reward: as it is, and after each edit."""
        given = json.dumps([(str(path), before, after) for path, before, after in edits])
        return json.loads(self.python(PARTS, given))

    def python(self, code: str, *arguments: str) -> str:
        """Return what a program prints in an interpreter that has the package installed."""
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment, cwd="/")
        assert done.returncode == 0, done.stderr
        return done.stdout


def build_and_unpack(folder: Path, way: str) -> dict[str, str]:
    """Install folder/project into folder/site; return the variables under which an interpreter has it installed."""
    editable, mode = WAYS[way]
    wheels, site = folder / "wheels", folder / "site"
    wheels.mkdir()
    code = BUILD.format(mode=mode, editable=editable, wheels=str(wheels))
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=folder / "project", timeout=120)
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # a folder of PYTHONPATH is none whose .pth files are read, unless somebody asks for it
    (site / "sitecustomize.py").write_text(f"import site\nsite.addsitedir({str(site)!r})\n")
    return {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"}
