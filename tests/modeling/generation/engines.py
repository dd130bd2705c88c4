"""Engine samplers on the engines of these tests."""

from __future__ import annotations

import sys
from typing import Any

from components.modeling.generation.engine.engine_process import EngineProcess
from components.modeling.generation.engine.engine_sampler import EngineSampler
from components.modeling.models.policy import Policy

HERE = "tests.modeling.generation"
NATIVE = f"{HERE}.native_engine:NativeEngine"
FORGETFUL = f"{HERE}.native_engine:ForgetfulEngine"
PLAIN = f"{HERE}.plain_engine:PlainEngine"
GATED = f"{HERE}.plain_engine:GatedEngine"
PACKAGE = f"{HERE}.plain_engine:PackageEngine"


def engine_process(name: str, *, python: str = sys.executable) -> EngineProcess:
    """Start an engine."""
    return EngineProcess(name, python=python, environment={"OMP_NUM_THREADS": "1"})


def engine_sampler(policy: Policy, name: str = NATIVE, **options: Any) -> EngineSampler:
    """Return a sampler on an engine that starts at the first weights."""
    return EngineSampler(policy, lambda: engine_process(name), options)
