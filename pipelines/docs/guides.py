"""The guides: every Markdown file of the tree, and where each stands on the site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
ROOMS = ("components", "pipelines", "dags", "infra", ".github")
GUIDES = "pipelines/docs"
HOME = "index.md"
STAGES = (
    *("curate", "synthesize", "pretrain", "sft", "preference", "reward_model"),
    *("rl", "replay", "merge", "select"),
)
FIRST = {
    "Start": [
        "README.md",
        *(f"{GUIDES}/{name}.md" for name in ("concepts", "own-data", "looking-at-runs", "reproducibility")),
        "pipelines/client/README.md",
        *(f"{GUIDES}/{name}.md" for name in ("migration", "troubleshooting")),
    ],
    "Recipes": [
        "pipelines/recipe/README.md",
        *(f"{GUIDES}/own-{name}.md" for name in ("operators", "code")),
        f"{GUIDES}/hallmarks.md",
        "components/rl/methods/README.md",
    ],
    "Stages": [f"components/{name}/README.md" for name in STAGES],
    "Engines": [f"pipelines/engines/{name}README.md" for name in ("", "airflow/", "kubeflow/")],
    "Inside": ["pipelines/README.md"],
    "Project": [],
}
"""Sections of the site, in order, and what stands first in each; all other guides follow by their path."""


def guides(root: Path = ROOT) -> list[str]:
    """Return the paths of all guides of a tree, below its root; hidden folders but .github hold none."""
    found = [path for room in ROOMS for path in (root / room).rglob("*.md")]
    paths = [path.relative_to(root) for path in found]
    kept = [path.as_posix() for path in paths if not any(part.startswith(".") for part in path.parts[1:])]
    return [*(["README.md"] if (root / "README.md").is_file() else []), *sorted(kept)]


def place(path: str) -> str:
    """Return where a guide stands on the site: a README is the index of its folder."""
    folder, _, name = path.rpartition("/")
    if folder == ".github":
        return f"project/{name.lower()}"
    return f"{folder}/{HOME}".lstrip("/") if name == "README.md" else path


def title(text: str, section: str) -> str:
    """Return the short title of a guide: its first heading, up to a colon unless that is the section's name."""
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    whole = heading[1].replace("`", "") if heading else "Untitled"
    short = whole.partition(":")[0]
    return whole if short == section else short


def sections(paths: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the sections of the site, each with its guides in reading order; every guide is in one of them."""
    for name, first in FIRST.items():
        members = {path for path in paths if _section(path) == name}
        ordered = [path for path in first if path in members]
        if rest := sorted(members - set(ordered)):
            ordered += rest
        if ordered:
            yield name, ordered


def _section(path: str) -> str:
    for name, first in FIRST.items():
        if path in first:
            return name
    parts = PurePosixPath(path).parts
    if parts[0] == ".github":
        return "Project"
    if path.startswith(f"{GUIDES}/"):
        return "Start"
    if parts[0] == "components" and len(parts) == 3:
        return "Stages"
    return "Engines" if parts[0] == "infra" or path.startswith("pipelines/engines/") else "Inside"
