"""Fixtures that several stages' tests ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.rl import toy_operators


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Equal bytes are promised for one torch thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def toys() -> None:
    """Let presets name the toy operators."""
    toy_operators.register()
