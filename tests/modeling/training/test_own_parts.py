"""A rank reads its own rows of a checkpoint, whatever the number of ranks that wrote it and that read it."""

from __future__ import annotations

import tempfile
from math import prod
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from components.contract.errors import CorruptArtifact
from components.modeling.training.own_parts import OwnParts
from components.modeling.training.shards import AT, part_name

SHAPES = {"big": torch.Size((37, 5)), "even": torch.Size((16,)), "few": torch.Size((2, 3, 2)), "one": torch.Size((1,))}


def whole(prefix: str = "") -> dict[str, Tensor]:
    """Return tensors whose every element is another number."""
    return {prefix + name: torch.arange(prod(shape)).float().view(shape) + 1e3 for name, shape in SHAPES.items()}


def rows_of(tensor: Tensor, rank: int, ranks: int) -> Tensor:
    """Return a rank's rows, as torch cuts them; there may be none."""
    parts = tensor.chunk(ranks)
    return parts[rank] if rank < len(parts) else tensor[:0]


def elements_of(name: str, rank: int, ranks: int) -> range:
    """Return which elements those are, counted one by one."""
    numbered = torch.arange(prod(SHAPES[name])).view(SHAPES[name])
    own = rows_of(numbered, rank, ranks).flatten().tolist()
    return range(own[0], own[-1] + 1) if own else range(0)


def save(folder: Path, kind: str, tensors: dict[str, Tensor], ranks: int) -> None:
    """Write what each rank saves: its pieces, and counts of the tensors of which it has any."""
    for rank in range(ranks):
        kept: dict[str, Tensor] = {}
        for key, tensor in tensors.items():
            name = key.rpartition("/")[2]
            if (own := rows_of(tensor, rank, ranks)).numel():
                kept[f"{key}{AT}{elements_of(name, rank, ranks).start}"] = own.flatten().clone()
                if "/" in key:
                    kept[f"step/{name}"] = torch.tensor(3.0)
        save_file(kept, folder / part_name(kind, rank))


@given(st.integers(1, 9), st.integers(1, 9))
def test_a_rank_gets_its_rows_and_reads_no_others(before: int, now: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder), "weights-", whole(), before)
        save(Path(folder), "states-", whole("exp_avg/"), before)
        for rank in range(now):
            spans = {name: elements_of(name, rank, now) for name in SHAPES}
            asked: list[str] = []

            def part(name: str, asked: list[str] = asked, folder: str = folder) -> Path:
                asked.append(name)
                return Path(folder) / name

            weights, states = (OwnParts(kind, before, part, spans.__getitem__) for kind in ("weights-", "states-"))
            found, kept = weights.weights(SHAPES), states.states(SHAPES)
            assert found.keys() == SHAPES.keys()
            own = {name for name, span in spans.items() if span}
            assert own <= {key.partition("/")[2] for key in kept if key.startswith("exp_avg/")} == own
            for name, span in spans.items():
                for tensor in (found[name], kept.get(f"exp_avg/{name}")) if span else ():
                    assert tensor is not None and tensor.shape == SHAPES[name]
                    assert torch.equal(rows_of(tensor, rank, now), rows_of(whole()[name], rank, now))
            assert weights.bytes_read == 4 * sum(map(len, spans.values()))
            assert states.bytes_read == weights.bytes_read + 4 * sum(key.startswith("step/") for key in kept)
            holds = {r for n, s in spans.items() for r in range(before) if {*s} & {*elements_of(n, r, before)}}
            assert sorted(asked) == sorted(part_name(kind, r) for kind in ("weights-", "states-") for r in holds)
            assert weights.files == sorted(holds)


def test_a_missing_file_or_piece_is_told(tmp_path: Path) -> None:
    save(tmp_path, "weights-", whole(), 2)
    everything = OwnParts("weights-", 2, tmp_path.joinpath, lambda name: range(prod(SHAPES[name])))
    assert all(torch.equal(tensor, whole()[name]) for name, tensor in everything.weights(SHAPES).items())
    torn = {f"big{AT}0": torch.zeros(7)}
    save_file(torn, tmp_path / part_name("weights-", 0))
    with pytest.raises(CorruptArtifact, match="lacks a part of 'big'"):
        OwnParts("weights-", 2, tmp_path.joinpath, lambda _: range(1, 9)).weights({"big": SHAPES["big"]})
    (tmp_path / part_name("weights-", 1)).unlink()
    with pytest.raises(CorruptArtifact, match=r"weights-00001\.safetensors, one of 2 parts, is not there"):
        OwnParts("weights-", 2, tmp_path.joinpath, lambda name: range(prod(SHAPES[name]))).weights(SHAPES)
