"""Hugging Face datasets: a name on the hub, a local folder of data files, or one made by `save_to_disk`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.source import SourceRequest, SourceRows
from components.tasks.table_files import NamedRow
from components.tasks.tables import TableConfig, table_rows

if TYPE_CHECKING:
    from datasets import Dataset

SAVED_MARK = "state.json"


class HubDataset(Params):
    """Which dataset."""

    dataset: str = Field(min_length=1)
    """Name on the hub (`owner/name`), or a local folder."""
    subset: str | None = None
    """Configuration of the dataset, where it has several."""
    split: str = "train"
    """Which split."""
    revision: str | None = None
    """Commit or tag to pin; without one the newest is taken and later changes go unnoticed."""


class HfConfig(TableConfig, HubDataset):
    """Which dataset, and which of its columns hold what."""

    def local_files(self) -> list[Path]:
        """Return the files of a local folder."""
        return sorted(path for path in Path(self.dataset).rglob("*") if path.is_file())


def hf(request: SourceRequest, *, config: HfConfig) -> SourceRows:
    """Read a Hugging Face dataset. Code that a dataset brings along is never run."""
    return read_dataset(config, config)


def read_dataset(named: HubDataset, config: TableConfig) -> SourceRows:
    """Read a dataset by the columns of `config`. Raises InputError if it cannot be loaded."""
    dataset = _load(named)
    origin = {
        "source": "hf",
        "name": Path(named.dataset).name if Path(named.dataset).is_dir() else named.dataset,
        "subset": named.subset,
        "split": named.split,
        "revision": named.revision,
        "num_rows": len(dataset),
    }
    return SourceRows(table_rows(_rows(dataset, named), config), origin)


def _load(config: HubDataset) -> Dataset:
    import datasets

    folder = Path(config.dataset)
    try:
        if folder.is_dir() and (folder / SAVED_MARK).is_file():
            return datasets.load_from_disk(folder)
        if folder.is_dir() and (folder / config.split / SAVED_MARK).is_file():
            return datasets.load_from_disk(folder / config.split)
        return datasets.load_dataset(config.dataset, config.subset, split=config.split, revision=config.revision)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        raise InputError(f"source hf: cannot load {config.dataset!r}, split {config.split!r}: {error}") from error


def _rows(dataset: Dataset, config: HubDataset) -> Iterator[NamedRow]:
    for number, row in enumerate(dataset, start=1):
        yield f"{config.dataset}[{config.split}]:row {number}", row
