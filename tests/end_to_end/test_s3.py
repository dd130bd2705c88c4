"""The same recipe with the store on S3, and with an S3 that fails on one request in ten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.command_line import Project, digests
from tests.support.fault_proxy import FaultProxy

Finished = tuple[Project, dict[str, Any]]


def test_the_digests_on_a_failing_s3_are_those_of_a_directory(
    finished: Finished, s3_uri: str, fault_proxy: Callable[..., FaultProxy], tmp_path: Path
) -> None:
    _, shown = finished
    proxy = fault_proxy(share=0.1, seed=5)
    again = Project(tmp_path, s3_uri).run()
    assert digests(again) == digests(shown)
    assert sum(proxy.injected.values()) > 20
    assert len(proxy.injected) >= 4, proxy.injected
