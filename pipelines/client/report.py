"""The report of a run inside a notebook: the whole page, in a frame that shares nothing with the notebook."""

from __future__ import annotations

from pathlib import Path

from components.contract.errors import InputError
from components.pages.pages import render
from pipelines.client.errors import told_plainly
from pipelines.client.pages import FOLDER


class Report:
    """The page of a run. A notebook shows it inline."""

    def __init__(self, run_id: str, html: str) -> None:
        self.run_id, self.html = run_id, html
        """The run, and the page: one HTML file, styles and scripts included."""

    @told_plainly
    def save(self, path: str | Path) -> Path:
        """Write the page to a file, whole or not at all, and return its path."""
        from pipelines.language.whole_file import write_whole

        target = Path(path).expanduser()
        target = target / "index.html" if target.is_dir() else target
        try:
            write_whole(target, self.html)
        except OSError as error:
            raise InputError(f"{target}: {error.strerror or error}") from None
        return target

    def __repr__(self) -> str:
        return f"<Report of {self.run_id}; save(path) writes it>"

    def _repr_html_(self) -> str:
        return render(FOLDER / "report.html", run_id=self.run_id, html=self.html)
