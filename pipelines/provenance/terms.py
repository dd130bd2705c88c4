"""What an imported model says of its licence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from components.contract.errors import PosttrainError

if TYPE_CHECKING:
    from components.runtime.store import Store

README, CONFIG = "README.md", "config.json"


def stated_license(store: Store, digest: str) -> str | None:
    """Return the licence that an imported model folder states: in its card, or in its config."""
    from huggingface_hub import ModelCard

    try:
        names = {entry.path for entry in store.manifest(digest).files}
        read = partial(store.read_file, digest)
        if README in names:
            stated = ModelCard(read(README).decode(), ignore_metadata_errors=True).data.get("license")
            if isinstance(stated, str) and stated:
                return stated
        config = json.loads(read(CONFIG)) if CONFIG in names else {}
    except (PosttrainError, ValueError):
        return None
    stated = config.get("license") if isinstance(config, Mapping) else None
    return stated if isinstance(stated, str) else None
