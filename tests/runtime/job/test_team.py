"""Who is to blame when ranks fail together, and where they were."""

from __future__ import annotations

import sys

import pytest

from components.contract.errors import InputError
from components.modeling.ranks import Ranks
from components.runtime.job.team.blame import elsewhere, is_consequence, is_timeout
from components.runtime.job.team.life import OUTSIDE, patience, place_in_traceback, place_of


@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1",
        "RuntimeError: [..] Timed out waiting 7200000ms for recv operation to complete",
        "DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251, remote process exited or there was an error",
        "DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown",
    ],
)
def test_a_broken_connection_is_nobodys_cause(message: str) -> None:
    assert is_consequence(message)


@pytest.mark.parametrize(
    "message",
    [
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "RuntimeError: the card fell off",
        "AcceleratorError: CUDA error: an illegal memory access was encountered",
        "the gradient is not finite",
    ],
)
def test_what_a_rank_did_itself_is(message: str) -> None:
    assert not is_consequence(message) and not is_timeout(message)


def test_who_did_not_come_is_named() -> None:
    places = {1: "components/a.py:1 (f)", 2: "components/b.py:9 (g)", 3: "components/a.py:1 (f)"}
    said = "rank 2 of 4 was at components/b.py:9 (g), while the first rank waited at components/a.py:1 (f)"
    assert elsewhere("components/a.py:1 (f)", places, 4) == said
    assert elsewhere("components/a.py:1 (f)", {1: "components/a.py:1 (f)"}, 2) == ""


def test_places_are_those_of_this_tree() -> None:
    seen: list[str] = []
    Ranks().first_says(lambda: seen.append(place_of(sys._getframe())))
    assert seen[0].startswith("tests/runtime/job/test_team.py:")
    assert place_of(None) == OUTSIDE

    def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError) as caught:
        Ranks().first_says(fail)
    line = fail.__code__.co_firstlineno + 1
    assert place_in_traceback(caught.value) == f"tests/runtime/job/test_team.py:{line} (fail)"


@pytest.mark.parametrize("given", ["0", "never", "inf"])
def test_a_patience_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(InputError, match=r"POSTTRAIN_RANK_SECONDS is .*; set a number of seconds above 0"):
        patience({"POSTTRAIN_RANK_SECONDS": given})
