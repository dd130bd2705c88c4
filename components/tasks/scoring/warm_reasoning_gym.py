"""Makes reasoning-gym ready, inside the sandbox: sympy prepares much at the first use of each of its parts.

One of the library's own imports draws with matplotlib, which refuses to be imported where nothing can be written.
Scorers draw nothing, so an empty module takes its place.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

DRAWS = frozenset({"matplotlib", "mpl_toolkits"})
TASKS = ("countdown", "puzzle24", "polynomial_multiplication", "simple_integration", "intermediate_integration")


class _Empty(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return object


class _NothingIsDrawn(MetaPathFinder, Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in DRAWS else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def _prepare() -> None:
    from reasoning_gym.factory import create_dataset

    for task in TASKS:
        dataset = create_dataset(task, seed=0, size=4)
        for index in range(len(dataset)):
            dataset.score_answer(dataset[index]["answer"], dataset[index])


if not DRAWS & sys.modules.keys():
    sys.meta_path.insert(0, _NothingIsDrawn())
_prepare()
