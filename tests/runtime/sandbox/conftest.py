"""The backends of this machine; each test of the sandbox runs on every one."""

from __future__ import annotations

import pytest

from components.contract.errors import InputError
from components.runtime.sandbox import open_sandbox
from components.runtime.sandbox.backends import SETTING, usable_backend
from components.runtime.sandbox.launch import BACKENDS


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Force one backend; skipped where this machine has another only."""
    monkeypatch.setenv(SETTING, request.param)
    try:
        return usable_backend()
    except InputError as error:
        monkeypatch.delenv(SETTING)
        usable_backend()  # one there has to be
        pytest.skip(str(error))


@pytest.fixture
def sandbox(backend: str):
    """One server, ended with the test."""
    with open_sandbox(servers=1) as opened:
        yield opened
