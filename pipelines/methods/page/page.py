"""The page of the table: one file with its style sheet and script inside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from components.contract.errors import InputError
from components.pages.pages import render
from components.runtime.store import Store
from pipelines.methods.methods import Method
from pipelines.methods.multiplicity import together
from pipelines.methods.page.rows import row_of, sort_records
from pipelines.methods.page.runs import runs_of
from pipelines.report.page import STYLES

TEMPLATE = Path(__file__).with_name("page.html")
STYLE = Path(__file__).with_name("page.css")
SCRIPT = Path(__file__).with_name("page.js")


def methods_page(methods: Sequence[Method], store: Store) -> str:
    """Return the page of these methods as HTML; runs of the store that made a record are named in its row."""
    runs = {method.slug: runs_of(store, method) for method in methods}
    return draw(methods, {method.slug: _remarks(method) for method in methods}, runs)


def _remarks(method: Method) -> Sequence[str]:
    try:
        return method.remarks or ()
    except InputError as error:
        return [f"its recipe cannot be read: {error}"]


def draw(methods: Sequence[Method], remarks: Mapping[str, Sequence[str]], runs: Mapping[str, Sequence[str]]) -> str:
    """Return the page; `remarks` and `runs` are by method."""
    current, earlier, rest = sort_records(methods)
    table = together(record for _, record in current)
    rows = [
        row_of(method, record, table, remarks.get(method.slug, ()), runs.get(method.slug, ()))
        for method, record in current
    ]
    counts = Counter(cell.verdict for row in rows for cell in row.cells)
    return render(
        TEMPLATE,
        title="Methods",
        style=Markup("".join(path.read_text(encoding="utf-8") for path in (STYLES[0], STYLE))),
        script=Markup(SCRIPT.read_text(encoding="utf-8")),
        rows=rows,
        earlier=earlier,
        rest=rest,
        table=table,
        counts=counts.most_common(),
        families=sorted({row.family for row in rows} | {row.family for row in earlier}),
    )
