"""The deterministic mode: switches that are set in time and put back, and operations that have no kernel for it."""

from __future__ import annotations

import pytest
import torch
from torch.utils import deterministic

from components.contract.backends import Backends
from components.contract.errors import InputError
from components.runtime.system.determinism import (
    ENVIRONMENT,
    WORKSPACE,
    NotDeterministic,
    deterministic_torch,
    set_environment,
)

ASKED = Backends(deterministic=True)


def switches() -> tuple[bool, ...]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
        deterministic.fill_uninitialized_memory,
    )


def test_libraries_are_told_before_they_start() -> None:
    environ: dict[str, str] = {"NCCL_ALGO": "Tree"}
    set_environment(ASKED, environ)
    assert environ == {WORKSPACE: ":4096:8", **ENVIRONMENT}
    slower = {WORKSPACE: ":16:8"}
    set_environment(ASKED, slower)
    assert slower[WORKSPACE] == ":16:8"
    untouched: dict[str, str] = {}
    set_environment(Backends(), untouched)
    assert untouched == {}


def test_a_workspace_that_does_not_repeat_is_refused() -> None:
    with pytest.raises(InputError, match=r"CUBLAS_WORKSPACE_CONFIG is ':0:0', at which cuBLAS does not repeat itself"):
        set_environment(ASKED, {WORKSPACE: ":0:0"})


def test_torch_is_switched_inside_alone() -> None:
    before = switches()
    with deterministic_torch(ASKED):
        assert switches() == (True, True, False, False)
    assert switches() == before
    with deterministic_torch(Backends()):
        assert switches() == before


def test_what_has_no_kernel_is_named_and_the_switches_are_put_back() -> None:
    before = switches()
    said = "put_ has no deterministic kernel here; take another operator"
    with pytest.raises(NotDeterministic, match=said), deterministic_torch(ASKED):
        torch.zeros(4).put_(torch.tensor([1, 1]), torch.ones(2))
    assert switches() == before


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="the card fell off") as caught, deterministic_torch(ASKED):
        raise RuntimeError("the card fell off")
    assert not isinstance(caught.value, InputError)
