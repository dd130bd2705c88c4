"""The adopt stage: copies files and metadata, so that the output is the same artifact."""

from __future__ import annotations

import shutil

from components.adopt.params import AdoptParams
from components.contract.context import StageContext


def run(context: StageContext[AdoptParams]) -> None:
    """Copy the input's files and metadata to the output."""
    model = context.input("model")
    shutil.copytree(model.path, context.output("model"), dirs_exist_ok=True, copy_function=shutil.copyfile)
    context.describe("model", **model.metadata)
