"""What a checkpoint on another number of processes is said to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.runtime.job.other_sizes import other_size
from components.runtime.ledger.fingerprint import Fingerprint
from components.runtime.store import open_store

PARTS: dict[str, Any] = {"component": "rl", "seed": 7}


@pytest.mark.parametrize(
    ("made", "here", "said"),
    [
        ({"trainer": "fsdp", "processes": 16}, {"trainer": "fsdp", "processes": 8}, "{trainer: fsdp}` on 16 in all"),
        ({"trainer": "fsdp", "processes": 4, "gather": "layer"}, {}, "{trainer: fsdp, gather: layer}` on 4 in all"),
        (
            {"trainer": "fsdp", "processes": 16, "tensor_parallel": 8},
            {"trainer": "fsdp", "processes": 16},
            "{trainer: fsdp, tensor_parallel: 8}` on 16 in all",
        ),
        (
            {"sampler": "vllm", "trainer": "deepspeed", "zero_stage": 3, "processes": 2},
            {"sampler": "vllm", "trainer": "fsdp", "processes": 2},
            "{trainer: deepspeed, zero_stage: 3}` on 2 in all",
        ),
    ],
)
def test_settings_that_go_on(tmp_path: Path, made: dict[str, Any], here: dict[str, Any], said: str) -> None:
    store = open_store(str(tmp_path))
    digest = Fingerprint.of({**PARTS, "backends": made}).digest
    store.blobs.create(f"partial/{digest}/00000005-1/manifest.json", b"{}")
    found = other_size(store, Fingerprint.of({**PARTS, **({"backends": here} if here else {})}))
    assert found is not None and found.startswith("the checkpoint of step 5 was made on ") and said in found
    assert other_size(store, Fingerprint.of({**PARTS, "backends": made})) is None
