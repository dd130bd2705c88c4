"""The merge stage: reads several models tensor by tensor, merges each tensor, and writes one model or several."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.context import Input, StageContext
from components.contract.errors import InputError
from components.contract.operators import Bound
from components.measure.metrics import write_json
from components.merge.agreement import Named, check_agreement, weights_of
from components.merge.moves import FILE, Moves, report
from components.merge.stack import Block, Family, Probing, Stack, stored_bytes
from components.merge.writing import Planned, ShardWriter, copy_rest, planned_files, write_index

if TYPE_CHECKING:
    from torch import Tensor

    from components.merge.params import Candidate, MergeParams

_PORT_NAME = re.compile(r"[\w.,=\[\]-]+")
MERGED = "merged"
Progress = Callable[[], None]


def run(ctx: StageContext[MergeParams]) -> None:
    """Write output `report`, and `model` or, with a sweep, `checkpoints`."""
    params, models, bases = ctx.params, ctx.inputs("models"), ctx.inputs("base")
    named = [Named(f"models[{position}]", found.path) for position, found in enumerate(models)]
    named += [Named("base", found.path) for found in bases]
    check_agreement(named, same_tokenizer=params.tokenizers == "equal")
    connected = {port for port in ("base", "probe") if ctx.inputs(port)}
    for candidate in params.candidates:
        check_candidate(candidate, len(models), connected)
    family = Family(
        [weights_of(found.path) for found in models],
        weights_of(bases[0].path) if bases else None,
        seed=ctx.seed,
        probing=Probing(models[0].path, tuple(found.path for found in ctx.inputs("probe")), ctx.device),
    )
    names = [stack.name for stack in family.stacks()]
    moves = Moves(_names(models), names, has_base=bool(bases))
    progress = _counter(ctx, len(names) * len(params.candidates))
    dtype = None if params.dtype == "keep" else params.dtype
    for candidate, folder in _places(ctx):
        copy_rest(models[0].path, folder, dtype)
        _write(family, candidate, folder, dtype, moves, progress)
    _finish(ctx, moves, family, reference="the base" if bases else "the first model")


def check_candidate(candidate: Candidate, count: int, connected: Collection[str]) -> None:
    """Raise InputError where a merger does not fit the number of models, or lacks an input."""
    config, name = candidate.config, f"merger {candidate.merger.shown!r}"
    try:
        config.check_count(count)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    if lacking := [port for port in config.asked if port not in connected]:
        raise InputError(f"{name} needs input {lacking[0]!r}")


def _names(models: Sequence[Input]) -> list[str]:
    """Return how reports call models: "stage.port"; what may name this machine is called by its content."""
    found: list[str] = []
    for model in models:
        source = model.source if _PORT_NAME.fullmatch(model.source) else f"model-{model.digest[:12]}"
        found.append(source if source not in found else f"{source} ({len(found) + 1})")
    return found


def _places(ctx: StageContext[MergeParams]) -> list[tuple[Candidate, Path]]:
    """Return the models to make with their folders; write the index of a sweep's."""
    candidates = ctx.params.candidates
    if not ctx.params.sweep:
        return [(candidates[0], ctx.output("model"))]
    shelf = ctx.output("checkpoints")
    entries = [{"path": candidate.label, "step": step} for step, candidate in enumerate(candidates, 1)]
    (shelf / "index.json").write_text(json.dumps(entries, indent=1, sort_keys=True) + "\n")
    for candidate in candidates:
        (shelf / candidate.label).mkdir()
    return [(candidate, shelf / candidate.label) for candidate in candidates]


def _write(
    family: Family, candidate: Candidate, folder: Path, dtype: str | None, moves: Moves, progress: Progress
) -> None:
    """Write one merged model's weights."""
    stacks = {stack.name: stack for stack in family.stacks()}
    others = dict(family.others())
    files = planned_files(family.models[0], dtype)
    label = candidate.label or MERGED
    for file, tensors in files.items():
        with ShardWriter(folder / file, tensors) as writer:
            for planned in writer.tensors:
                if planned.name in others:
                    writer.append(stored_bytes(others[planned.name]))
                    continue
                _merge(stacks[planned.name], candidate.merger, writer, planned, moves, label)
                progress()
    write_index(folder, files)


def _merge(stack: Stack, merger: Bound, writer: ShardWriter, planned: Planned, moves: Moves, label: str) -> None:
    """Merge one tensor, block by block."""
    merge, unseen = merger(stack), not moves.has_models(stack.name)
    for block in stack.blocks():
        if unseen:
            moves.add_models(stack.name, _reference(block), block.models)
        shape = block.models[0].shape
        merged: Tensor = merge(block)
        if merged.shape != shape:
            raise merger.failed(f"returned {list(merged.shape)} for rows of {stack.name}, which are {list(shape)}")
        moves.add_merged(stack.name, label, _reference(block), merged)
        writer.write(planned, merged)


def _reference(block: Block) -> Tensor:
    return block.models[0] if block.own_base is None else block.own_base


def _counter(ctx: StageContext[Any], total: int) -> Progress:
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        ctx.progress(done, total)

    return step


def _finish(ctx: StageContext[MergeParams], moves: Moves, family: Family, *, reference: str) -> None:
    """Write the report and the headline, and describe what was made."""
    labels = [candidate.label or MERGED for candidate in ctx.params.candidates]
    write_json(ctx.output("report") / FILE, report(moves, labels, reference))
    port = "checkpoints" if ctx.params.sweep else "model"
    ctx.describe(port, kind="merged", merger=ctx.params.merger.name, num_models=len(family.models))
    total = moves.total()
    ctx.headline(**family.facts)
    ctx.headline(num_models=len(family.models), num_tensors=sum(1 for _ in family.stacks()))
    if ctx.params.sweep:
        ctx.headline(num_candidates=len(labels))
    else:
        ctx.headline(moved=total["moved"].get(MERGED, 0.0))
    if cosines := total["cosine"].values():
        ctx.headline(cosine=sum(cosines) / len(cosines))
    if "sign_conflicts" in total:
        ctx.headline(sign_conflicts=total["sign_conflicts"])
