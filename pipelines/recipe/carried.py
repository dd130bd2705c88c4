"""A recipe that is read where its files are not: the code, the data and the folders of the machine that sent it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from components.contract.operator_files.code import OperatorCode
from components.contract.operator_packages.code import CodeTree
from components.contract.uploaded import Upload
from pipelines.language.document import Document
from pipelines.language.uris import check_uri


class SenderFolders(dict[str, Path]):
    """Folders of a recipe's files on the sender's machine, by label; what came with --set lay in its working folder."""

    def __init__(self, folders: Mapping[str, Path], working: Path) -> None:
        super().__init__(folders)
        self._working = working

    def get(self, label: str, default: Any = None) -> Any:
        """Return the folder of a label, the working folder for a label of no file."""
        return super().get(label, self._working)


def checked_uri(text: str, folders: Mapping[str, Path], label: str) -> str:
    """Return the URI of an input as `check_uri` does; a path of the sender's is not looked for on this machine."""
    return check_uri(text, folders.get(label), here=not isinstance(folders, SenderFolders))


def sender_folders(documents: Sequence[Document]) -> list[str]:
    """Return the folders of a recipe's files on this machine, in order, and last the working folder."""
    return [*(str(document.path.parent.absolute()) for document in documents), str(Path.cwd())]


@dataclass(frozen=True)
class Carried:
    """What travels with a recipe. Code is found by what the recipe writes, and data by their path at the sender."""

    files: Mapping[str, OperatorCode] | None = None
    """None: the files are read, as they lie beside the recipe here, too."""
    trees: Mapping[str, CodeTree] | None = None
    """The same for packages."""
    uploads: Sequence[Upload] = ()
    folders: Sequence[str] = ()
    """Folders of the recipe's file and of its parents, in order; empty: where they lie here."""
    working: str = ""

    def folders_of(self, labels: Sequence[str]) -> SenderFolders:
        """Return the sender's folders by the labels that the recipe's files have here."""
        if len(labels) != len(self.folders):
            raise InputError(f"the recipe came from {len(self.folders)} files, and there are {len(labels)} of it here")
        return SenderFolders(dict(zip(labels, map(Path, self.folders), strict=True)), Path(self.working))
