"""For every area: a local S3 server over real HTTP, a proxy before it that fails on purpose, and how tests share a
machine."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.fault_proxy import FaultProxy
from tests.support.s3_server import local_s3, make_bucket, s3_environment

BUCKET = "posttrain-tests"
WORKERS_PER_CORE = 2
"""Tests wait for processes, servers and locks about as long as they calculate."""
GIB_PER_WORKER = 4
"""A worker, and the jobs that it starts."""
ELSEWHERE = {"airflow": "pipelines/engines/airflow", "kfp": "pipelines/engines/kubeflow", "playwright": "airflow_ui"}
"""Library -> tests that run in the environments that hold it, which have their own make targets."""
CHAOS = "tests.chaos.registered"
"""Makes the component of tests/chaos known to jobs that are forked from the tests' own process."""

collect_ignore = [folder for library, folder in ELSEWHERE.items() if find_spec(library) is None]
# Equal bytes are promised for one thread, and what waits in a spin lock takes the cores from the other workers.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Golden values were made with oneDNN, and MKL, which other processors take, rounds differently.
os.environ.setdefault("POSTTRAIN_PRODUCTS", "onednn")

if find_spec("hypothesis") is not None:
    from hypothesis import settings

    # an example that other workers keep waiting for the cores is not slow
    settings.register_profile("ci", deadline=None, max_examples=25)
    settings.register_profile("full", deadline=None, max_examples=100)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.hookimpl(optionalhook=True)  # the environments of Airflow and Kubeflow have no xdist
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return for `-n auto` how many workers the cores and the memory of this machine carry."""
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return max(1, min(WORKERS_PER_CORE * len(os.sched_getaffinity(0)), gib // GIB_PER_WORKER))


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """The tests' own process does not wait until a disk has the bytes: they wait for that at every write, and it is
    against a loss of power, which no test brings about. The jobs and commands that they start do wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def fork_server_for_every_run() -> Iterator[None]:
    """The fork server of this process starts with the first recipe that a test runs here, and serves all later ones:
    it imports what any of them needs, whichever test is the first, so that none imports torch in each of its jobs."""
    if find_spec("torch") is None:
        yield
        return
    from components.contract.registry import component_targets, components
    from components.runtime.gates.process import GATE_LIBRARY, GATES_PREPARED
    from pipelines.engines.local import engine

    every = [components().get(name) for name in component_targets()]
    wider = {*(module for component in every for module in component.preloads), GATE_LIBRARY, CHAOS}
    own = {module for component in every for module in (component.run.partition(":")[0], component.params.__module__)}
    original = engine.preload

    def preload(modules: Iterable[str], environment: Mapping[str, str], cheap: Iterable[str] = ()) -> None:
        original({*modules, *wider}, environment, {*cheap, *own, GATES_PREPARED})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "preload", preload)
        yield


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
