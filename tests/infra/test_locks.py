"""The lock of the GPU image: the versions that everything is tested with, but for those that vLLM chooses."""

from __future__ import annotations

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.infra.conftest import INFRA

REQUIREMENTS = INFRA / "requirements"


def test_the_gpu_image_holds_the_versions_of_the_stages() -> None:
    stages, gpu = _pins("stages"), _pins("gpu")
    lines = [line for line in (REQUIREMENTS / "gpu.in").read_text().splitlines() if line and line[0] != "#"]
    own = {canonicalize_name(Requirement(line).name) for line in lines}
    assert own <= gpu.keys()
    assert len(stages) > 100
    assert {name: gpu.get(name) for name in stages if name not in own} == {
        name: version for name, version in stages.items() if name not in own
    }, "run: make lock-gpu"


def _pins(name: str) -> dict[str, str]:
    lines = (REQUIREMENTS / f"{name}.lock").read_text().splitlines()
    return dict(line.split("==") for line in lines if line[0] != "#")
