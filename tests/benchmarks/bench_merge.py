"""Merging two large folders: seconds and memory, beside a plain copy of as many bytes and beside mergekit.

    python -m tests.benchmarks.bench_merge [--layers 4] [--width 2048] [--threads 1] [--json FILE]

Folders are a Llama's, in bfloat16, of random numbers, in a temporary folder (TMPDIR chooses the disk). With `--layers
32 --width 4096` they are 7B: 27 GB, and half as much again for what is merged, which is deleted before the next is
made. `copy` reads both folders once and writes as much as one of them, in 8 MiB parts: what the disk takes for the
least that any merge must do. Each way runs in a process of its own and ends with fsync; its imports are done before the
clock starts. `peak_mib` is the most memory of it, without the page cache. Before each the folders are dropped from the
page cache, as far as the system heeds it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.benchmarks.script import run_script

PART, SHARD_LAYERS, VOCABULARY = 8 << 20, 4, 32_000
MERGERS: dict[str, Any] = {"linear": {"name": "linear", "weights": [1.0, 1.0]}, "slerp": {"name": "slerp", "t": 0.5}}


def compare(layers: int, width: int, threads: int) -> dict[str, Any]:
    """Return seconds, rates and memory of each way."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        for number in (1, 2):
            make_folder(folder / f"models-{number}", layers, width, seed=number)
        size = sum(file.stat().st_size for file in folder.glob("models-*/*.safetensors"))
        ways = [("copy", ""), *((program, merger) for merger in MERGERS for program in ("posttrain", "mergekit"))]
        found = {f"{program} {merger}".strip(): _run(folder, program, merger, threads) for program, merger in ways}
    floor = found["copy"]["seconds"]
    for figures in found.values():
        figures["times_copy"] = round(figures["seconds"] / floor, 2)
    return {"read_gb": round(size / 1e9, 2), "written_gb": round(size / 2e9, 2), "threads": threads, **found}


def make_folder(folder: Path, layers: int, width: int, seed: int) -> None:
    """Write a Llama's folder with weights cut from one block of random numbers."""
    folder.mkdir()
    inner = 11008 * width // 4096
    generator = torch.Generator().manual_seed(seed)
    pool = (torch.randn(1 << 24, generator=generator) * 0.02).bfloat16()
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": width // 128,
        "num_key_value_heads": width // 128,
        "vocab_size": VOCABULARY,
        "tie_word_embeddings": False,
        "dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0}}, "added_tokens": []}))
    placed: dict[str, str] = {}
    for number, shard in enumerate(_shards(layers, width, inner)):
        file = f"model-{number:05d}.safetensors"
        save_file({name: _cut(pool, name, shape) for name, shape in shard.items()}, folder / file, {"format": "pt"})
        placed.update(dict.fromkeys(shard, file))
    index = {"metadata": {}, "weight_map": placed}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _shards(layers: int, width: int, inner: int) -> Iterator[dict[str, tuple[int, ...]]]:
    square = dict.fromkeys([f"self_attn.{name}_proj" for name in "qkvo"], (width, width))
    mlp = {"mlp.gate_proj": (inner, width), "mlp.up_proj": (inner, width), "mlp.down_proj": (width, inner)}
    norms = dict.fromkeys(["input_layernorm", "post_attention_layernorm"], (width,))
    layer: dict[str, tuple[int, ...]] = {**square, **mlp, **norms}
    for first in range(0, layers, SHARD_LAYERS):
        numbers = range(first, min(layers, first + SHARD_LAYERS))
        yield {f"model.layers.{number}.{name}.weight": shape for number in numbers for name, shape in layer.items()}
    outer = {"model.embed_tokens.weight": (VOCABULARY, width), "lm_head.weight": (VOCABULARY, width)}
    yield {**outer, "model.norm.weight": (width,)}


def _cut(pool: Tensor, name: str, shape: tuple[int, ...]) -> Tensor:
    """Return numbers of the pool, from a place that depends on the name."""
    count = torch.Size(shape).numel()
    start = sum(name.encode()) * 4099 % len(pool)
    return pool.roll(-start).repeat(-(-count // len(pool)))[:count].view(shape)


def _run(folder: Path, program: str, merger: str, threads: int) -> dict[str, Any]:
    """Run one way in a process of its own."""
    _forget(folder)
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks.bench_merge",
        "--child",
        str(folder),
        program,
        merger,
        str(threads),
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    shutil.rmtree(folder / "made")
    figures = done.stdout.splitlines()[-1]
    print(program, merger, figures, file=sys.stderr, flush=True)
    return dict(json.loads(figures))


def _forget(folder: Path) -> None:
    """Ask the system to drop the models' pages."""
    for file in folder.glob("models-*/*.safetensors"):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _child(folder: Path, program: str, merger: str, threads: int) -> None:
    """Merge, and print what it took."""
    torch.set_num_threads(threads)
    work = {"copy": _copy, "posttrain": _posttrain, "mergekit": _mergekit}[program](folder, merger)
    before, began, cpu = _status("RssAnon"), time.perf_counter(), time.process_time()
    work()
    for file in (folder / "made").rglob("*.safetensors"):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    figures = {"seconds": round(seconds, 1), "cpu_seconds": round(used, 1)}
    print(json.dumps({**figures, "before_mib": before, "peak_mib": _status("VmHWM")}))


def _copy(folder: Path, merger: str) -> Callable[[], None]:
    first, second = (sorted(folder.glob(f"models-{number}/*.safetensors")) for number in (1, 2))
    (folder / "made").mkdir()

    def work() -> None:
        for one, other in zip(first, second, strict=True):
            with one.open("rb") as a, other.open("rb") as b, (folder / "made" / one.name).open("wb") as out:
                while part := a.read(PART):
                    b.read(PART)
                    out.write(part)

    return work


def _posttrain(folder: Path, merger: str) -> Callable[[], None]:
    from components.merge.component import COMPONENT
    from components.merge.run import run
    from tests.support.stage_context import LocalContext

    params, inputs = {"merger": MERGERS[merger]}, {"models": [folder / "models-1", folder / "models-2"]}
    formed = COMPONENT.formed(COMPONENT.params.model_validate(params))
    context = LocalContext(formed, folder / "made", params=params, inputs=inputs, seed=0)  # it hashes the inputs
    _forget(folder)
    return lambda: run(context)


def _mergekit(folder: Path, merger: str) -> Callable[[], None]:
    from mergekit.config import MergeConfiguration
    from mergekit.merge import MergeOptions, run_merge

    own = {"weight": 1.0} if merger == "linear" else {}
    models = [{"model": str(folder / f"models-{number}"), "parameters": own} for number in (1, 2)]
    config: dict[str, Any] = {"merge_method": merger, "models": models, "dtype": "bfloat16"}
    if merger == "slerp":
        config.update(base_model=models[0]["model"], parameters={"t": 0.5})
    asked = MergeConfiguration.model_validate(config)
    options = MergeOptions(copy_tokenizer=False, write_model_card=False, quiet=True)
    return lambda: run_merge(asked, str(folder / "made"), options)


def _status(field: str) -> int:
    """Return one of this process's memories, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1]) // 1024


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _child(Path(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]))
    else:
        run_script(__doc__, compare, layers=4, width=2048, threads=1)
