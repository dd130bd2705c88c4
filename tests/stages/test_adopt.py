"""adopt: what goes in comes out, to the digest."""

from __future__ import annotations

from pathlib import Path

from components.adopt.component import COMPONENT
from components.contract.artifacts import ArtifactType, describe_folder
from tests.support.stage_context import run_stage


def test_the_model_is_the_same_artifact(tmp_path: Path) -> None:
    model = tmp_path / "model"
    (model / "deeper").mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / "deeper" / "weights.bin").write_bytes(bytes(range(256)))
    metadata = {"steps": 3, "parent": "abc"}
    done = run_stage(COMPONENT, tmp_path / "stage", inputs={"model": (model, metadata)})
    assert done.digests == {"model": describe_folder(model, ArtifactType.MODEL, metadata).digest}
    (done.outputs["model"] / "config.json").write_text("changed")
    assert (model / "config.json").read_text() == "{}", "a copy, not a link"
