"""Files and folders that guides link to, as pages of the site: code beside the text that names it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from components.contract.python_text import parse_module

LANGUAGES = {
    ".py": "python",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".jsonl": "json",
    ".toml": "toml",
    ".sh": "bash",
    ".tf": "hcl",
    ".css": "css",
    ".js": "javascript",
    ".html": "html",
}
PICTURES = (".png", ".svg")
HEAD = '---\ntitle: "{title}"\nsearch:\n  exclude: true\nhide: [toc]\n---\n\n# `{title}`\n\n'


def place_of_source(path: str, *, folder: bool) -> str:
    """Return where a file or a folder of the tree stands on the site; pictures keep their path.

    MkDocs leaves out what begins with a dot, so that .github is told as github.
    """
    if not folder and path.endswith(PICTURES):
        return path
    shown = "/".join(part.removeprefix(".") for part in path.split("/"))
    return f"source/{shown}/index.md" if folder else f"source/{shown}.md"


def file_page(root: Path, path: str) -> str:
    """Return a text file as a page."""
    text = (root / path).read_text(encoding="utf-8", errors="replace").rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    language = LANGUAGES.get(Path(path).suffix, "text")
    return f'{HEAD.format(title=path)}{fence}{language} linenums="1"\n{text}\n{fence}\n'


def folder_page(root: Path, path: str) -> str:
    """Return a folder as a page: its files and folders, each with the first line of what it says about itself."""
    shown = [
        entry
        for entry in sorted((root / path).iterdir(), key=lambda entry: (entry.is_file(), entry.name))
        if not entry.name.startswith((".", "__"))
    ]
    rows = [f"| `{entry.name}{'/' if entry.is_dir() else ''}` | {_summary(entry)} |" for entry in shown]
    return HEAD.format(title=f"{path}/") + "\n".join(["| | |", "| --- | --- |", *rows, ""])


def _summary(entry: Path) -> str:
    code = entry / "__init__.py" if entry.is_dir() else entry
    if code.suffix == ".py" and code.is_file():
        said = ast.get_docstring(parse_module(code.read_text(encoding="utf-8"))) or ""
    elif code.suffix in (".yaml", ".sh") and code.is_file():
        comments = [line[2:] for line in code.read_text(encoding="utf-8").splitlines()[:3] if line.startswith("# ")]
        said = comments[0] if comments else ""
    else:
        said = ""
    return said.partition("\n")[0].replace("|", "\\|").replace("<", "&lt;")
