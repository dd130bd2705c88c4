"""Fixtures for every area: a local S3 server over real HTTP, and a proxy before it that fails on purpose."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.fault_proxy import FaultProxy
from tests.support.s3_server import local_s3, make_bucket, s3_environment

BUCKET = "posttrain-tests"
ELSEWHERE = {"airflow": "pipelines/engines/airflow", "kfp": "pipelines/engines/kubeflow", "playwright": "airflow_ui"}
"""Library -> tests that run in the environments that hold it, which have their own make targets."""

collect_ignore = [folder for library, folder in ELSEWHERE.items() if find_spec(library) is None]


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """URL of an S3 server that lives as long as the test session."""
    with local_s3() as endpoint:
        make_bucket(endpoint, BUCKET)
        yield endpoint


@pytest.fixture
def s3_uri(s3_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Address of an empty S3 store; the environment of this process and its children points at the local server."""
    for name, value in s3_environment(s3_endpoint, tmp_path / "cache").items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{uuid.uuid4().hex[:12]}"


@pytest.fixture
def fault_proxy(s3_endpoint: str, s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., FaultProxy]]:
    """Start a FaultProxy(share=, seed=, kinds=, hang_seconds=) before the S3 server and send all clients through it."""
    with ExitStack() as stack:

        def start(**options: object) -> FaultProxy:
            proxy = stack.enter_context(FaultProxy(s3_endpoint, **options))
            monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
            return proxy

        yield start
