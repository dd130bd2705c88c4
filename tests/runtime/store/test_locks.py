"""Locks: one holder at a time, freed when the holder dies, and told by name when waiting is in vain."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from components.runtime.store import StoreLocked, open_store
from components.runtime.store.lease import Lease, hold_lease
from components.runtime.store.s3_calls import S3Calls

SHORT_LEASE = 2.0
"""Last-Modified counts whole seconds, so a lease cannot be much shorter."""


def test_one_holder_at_a_time_and_the_other_is_told_who(store):
    with (
        store.lock("job", wait_seconds=0),
        pytest.raises(StoreLocked, match=rf"job: locked by process {os.getpid()} on .* waited 0 s"),
        store.lock("job", wait_seconds=0.2),
    ):
        pass
    with store.lock("job", wait_seconds=0):
        pass


def test_other_names_are_free(store):
    with store.lock("a", wait_seconds=0), store.lock("b", wait_seconds=0):
        pass


def test_an_error_inside_frees_the_lock_and_passes(backend):
    with pytest.raises(OSError, match="of the stage"), backend.store.lock("job", wait_seconds=0):
        raise OSError("of the stage")
    with backend.store.lock("job", wait_seconds=0):
        pass
    assert backend.stored() == []


def test_contenders_never_overlap(store):
    inside, most, total = 0, 0, 0
    guard = threading.Lock()

    def work() -> None:
        nonlocal inside, most, total
        for _ in range(3):
            with store.lock("job", wait_seconds=60):
                with guard:
                    inside += 1
                    most, total = max(most, inside), total + 1
                with guard:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, total) == (1, 12)


def test_a_killed_process_frees_its_lock_at_once(tmp_path):
    store = open_store(str(tmp_path))
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        with store.lock("job", wait_seconds=0):
            os.write(told, b"x")
            signal.pause()
    os.read(ready, 1)
    with pytest.raises(StoreLocked, match=f"process {child}"), store.lock("job", wait_seconds=0):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with store.lock("job", wait_seconds=1):
        pass


@pytest.fixture
def calls(s3_uri) -> S3Calls:
    return open_store(s3_uri).blobs.calls


def test_the_lease_of_a_dead_holder_expires(calls):
    dead = Lease(calls, "lease", SHORT_LEASE)
    assert dead.take() is None
    started = time.monotonic()
    with hold_lease(calls, "lease", "job", 30, SHORT_LEASE):
        assert time.monotonic() - started > 1
        assert not dead.renew()
        dead.release()
        assert dead.look() is not None  # the new holder's, left alone


def test_a_living_holder_keeps_its_lease_for_longer_than_it_lasts(calls):
    with (
        hold_lease(calls, "lease", "job", 0, SHORT_LEASE),
        pytest.raises(StoreLocked, match="freed 2 s after it ended"),
        hold_lease(calls, "lease", "job", 2 * SHORT_LEASE, SHORT_LEASE),
    ):
        pass


@pytest.mark.parametrize("step", ["take", "renew"])
def test_a_lost_answer_does_not_lose_the_lease(fault_proxy, s3_uri, step):
    proxy = fault_proxy(share=0)
    lease = Lease(open_store(s3_uri).blobs.calls, "lease", SHORT_LEASE)
    if step == "renew":
        lease.take()
    proxy.plan("lost", method="PUT")
    assert lease.take() is None if step == "take" else lease.renew()
    assert lease.renew()
    assert proxy.injected["lost"] == 1
