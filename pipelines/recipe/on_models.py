"""Models from outside a run: whether those of one stage suit each other and the operators that read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from components.contract.component import Given
from components.contract.job import FirstOf, UriRef
from pipelines.language.problems import Problems
from pipelines.recipe.draft import StageDraft

CONFIG = "config.json"


def check_models(drafts: Mapping[str, StageDraft], problems: Problems) -> None:
    """Note stages whose operators cannot read the models that they are given."""
    for draft in drafts.values():
        component = draft.component
        if component is None or component.refuses_models is None or draft.config is None:
            continue
        if any(isinstance(one, FirstOf) for references in draft.inputs.values() for one in references):
            continue  # the run decides which one
        given = {
            port: [_given(one.uri) if isinstance(one, UriRef) else None for one in references]
            for port, references in draft.inputs.items()
        }
        for why in component.refuses_models(draft.config, given):
            node = draft.node.child("in")
            problems.add((node or draft.node).mark, f"stage {draft.cell.template.path!r}: {why}")


def _given(uri: str) -> Given:
    """Return what is known of a URI: the folder of a local model, or of one that is cached from the hub."""
    scheme, colon, rest = uri.partition(":")
    if colon and scheme == "hf":
        return Given(uri, _cached(rest.strip("/")))
    folder = Path(rest if colon and scheme == "file" else uri)
    return Given(uri, folder if folder.is_dir() else None)


def _cached(name: str) -> Path | None:
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    found = try_to_load_from_cache(name, CONFIG)
    return Path(found).parent if isinstance(found, str) else None
