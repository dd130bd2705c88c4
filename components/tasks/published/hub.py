"""Published sets on the Hugging Face hub: their rows, and the commit that was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.contract.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset

    from components.tasks.published.catalogue import PublishedSet


def load(known: PublishedSet, split: str, revision: str | None) -> Dataset:
    """Return a split of a set; no code of its repository is run. Raises InputError if it cannot be loaded."""
    import datasets

    try:
        if known.files:
            at = f"@{revision}" if revision else ""
            place = f"hf://datasets/{known.hub}{at}/{known.files[split]}"
            return datasets.load_dataset(known.format, data_files={split: place}, split=split)
        return datasets.load_dataset(known.hub, known.subset, split=split, revision=revision)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        told = " ".join(str(error).split())
        raise InputError(
            f"source published: cannot load {known.hub!r}, split {split!r}, from the hub; set `path` to files with its "
            f"columns, or run where the hub is reachable: {told}"
        ) from error


def revision_of(name: str, revision: str | None) -> str | None:
    """Return the commit that a revision (by default the newest) names; the revision itself if the hub cannot say."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        return HfApi().dataset_info(name, revision=revision).sha
    except (HfHubHTTPError, OfflineModeIsEnabled, OSError):
        return revision
