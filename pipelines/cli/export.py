"""posttrain export: a model as a Hugging Face folder with its card, and as a GGUF file."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from pipelines.cli.output import print_json, print_text
from pipelines.cli.stores import store_of
from pipelines.cli.upkeep import size_text
from pipelines.models.find import model_of


def export(arguments: argparse.Namespace) -> int:
    """Write the folder and print what is in it."""
    from pipelines.models.export import export_model

    store = store_of(arguments)
    model = model_of(store, arguments.model)
    target = Path(arguments.folder).expanduser()
    made = export_model(
        store, model, target, adapter=arguments.adapter, check=not arguments.unchecked, gguf=arguments.gguf
    )
    sizes = {path.relative_to(target).as_posix(): path.stat().st_size for path in made.files}
    if arguments.json:
        check = asdict(made.check) if made.check else None
        gguf = {"gguf": asdict(made.gguf)} if made.gguf else {}
        print_json({"folder": str(target), "digest": model.digest, "files": sizes, "check": check, **gguf})
        return 0
    print_text(f"{target}: {model.name}, {len(sizes)} files, {size_text(sum(sizes.values()))}")
    if made.check:
        print_text(
            f"checked: transformers reads {made.check.num_tensors} tensors, {made.check.num_weights:,} weights; "
            f"logits at {made.check.num_positions} positions differ by {made.check.difference:.1g} of their spread"
        )
    if made.gguf:
        file, size = made.gguf, size_text(sizes[made.gguf.name])
        print_text(f"llama.cpp's converter wrote {file.name}: GGUF {file.version}, {file.num_tensors} tensors, {size}")
    print_text(f"its card is {target / 'README.md'}")
    return 0
