"""Engines that write down which weights they got, and one that has no room for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from components.modeling.generation.engine.frames import Arrays, Header
from tests.modeling.generation.bucket_engine import BucketEngine


class TellingEngine(BucketEngine):
    """Writes sums of weights and sizes of buckets into the file `told`."""

    def start(self, folder: str, options: dict[str, Any]) -> Header:
        """Remember the file; there are no weights in the folder."""
        assert sorted(path.name for path in Path(folder).iterdir()) == ["config.json", "generation_config.json"]
        self.told = Path(options["told"])
        return {"max_positions": 128}

    def end(self) -> None:
        """Write."""
        sums = {name: tensor.double().sum().item() for name, tensor in self.weights.items()}
        sizes = [sum(self.weights[name].nbytes for name in names) for names in self.buckets]
        self.told.write_text(json.dumps({"sums": sums, "buckets": self.buckets, "bytes": sizes}))

    def sample(self, settings: Header, arrays: Arrays) -> Arrays:
        """Draw nothing."""
        raise AssertionError("nobody asks")


class FullEngine(TellingEngine):
    """Takes no weights."""

    def take(self, bucket: Header) -> None:
        """Raise."""
        raise MemoryError("no room for weights")
