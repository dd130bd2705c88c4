"""Ways to break a model folder, each with what the one line about it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def edit(folder: Path, name: str, **changes: Any) -> None:
    """Change entries of a JSON file."""
    path = folder / name
    content = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**content, **changes}))


def rewrite_header(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the header of the weights, whose bytes stay."""
    raw = (folder / WEIGHTS).read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    (folder / WEIGHTS).write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length :])


def cut(folder: Path) -> None:
    """Leave half a shard."""
    raw = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(raw[: len(raw) // 2])


def _overlap(header: dict[str, Any]) -> None:
    first, second = sorted(name for name in header if name.endswith(("gate_proj.weight", "up_proj.weight")))[:2]
    header[second]["data_offsets"] = header[first]["data_offsets"]


def _pickled(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")


def _link(folder: Path) -> None:
    outside = folder.parent / "secret.json"
    outside.write_text("{}")
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "generation_config.json").symlink_to(outside)


def own_code(folder: Path, marker: Path) -> None:
    """Bring classes that write a marker when they are imported."""
    body = f"open({str(marker)!r}, 'w').close()\nclass C:\n    pass\n"
    for name in ("configuration_x.py", "modeling_x.py", "tokenization_x.py"):
        (folder / name).write_text(body)
    names = {"AutoConfig": "configuration_x.C", "AutoModelForCausalLM": "modeling_x.C"}
    edit(folder, "config.json", model_type="ours", auto_map=names)
    edit(
        folder,
        "tokenizer_config.json",
        tokenizer_class="OurTokenizer",
        auto_map={"AutoTokenizer": ["tokenization_x.C", None]},
    )


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "half a shard": (cut, "does not lie where the header says"),
    "index is a list": (lambda f: (f / INDEX).write_text("[1, 2]"), "holds a list, not a JSON object"),
    "index leads out": (
        lambda f: (f / INDEX).write_text(json.dumps({"weight_map": {"a": "../x.safetensors"}})),
        r"weights must be files of the folder",
    ),
    "index is absolute": (
        lambda f: (f / INDEX).write_text(json.dumps({"weight_map": {"a": "/etc/passwd"}})),
        r"weights must be files of the folder",
    ),
    "shard is missing": (
        lambda f: (f / INDEX).write_text(json.dumps({"weight_map": {"a": "gone.safetensors"}})),
        "has no gone.safetensors",
    ),
    "header of 2^62 bytes": (
        lambda f: (f / WEIGHTS).write_bytes((1 << 62).to_bytes(8, "little") + b"{}"),
        f"header would have {1 << 62} bytes",
    ),
    "overlapping tensors": (lambda f: rewrite_header(f, _overlap), "does not lie where the header says"),
    "vocabulary of 10^12": (lambda f: edit(f, "config.json", vocab_size=10**12), "vocab_size is 1000000000000"),
    "vocabulary of 10^6": (lambda f: edit(f, "config.json", vocab_size=10**6), "vocab_size is 1000000"),
    "10^9 layers": (lambda f: edit(f, "config.json", num_hidden_layers=10**9), "the weights have 2 layers"),
    "width of 10^8": (lambda f: edit(f, "config.json", intermediate_size=10**8), "no tensor .* is wider"),
    "negative size": (lambda f: edit(f, "config.json", hidden_size=-32), "hidden_size is -32"),
    "size is text": (lambda f: edit(f, "config.json", hidden_size="32"), "hidden_size is '32'"),
    "config is a list": (lambda f: (f / "config.json").write_text("[]"), "config.json holds a list"),
    "config is deep": (
        lambda f: (f / "config.json").write_text('{"a":' * 500 + "1" + "}" * 500),
        "deep in each other",
    ),
    "config is huge": (
        lambda f: (f / "config.json").write_text('{"a": "' + "x" * 20_000_000 + '"}'),
        "config.json has 20,000,009 bytes",
    ),
    "tokenizer is garbage": (
        lambda f: (f / "tokenizer.json").write_bytes(b"\xff\x00{"),
        "tokenizer.json cannot be read",
    ),
    "tokenizer is a list": (lambda f: (f / "tokenizer.json").write_text("[]"), "tokenizer.json holds a list"),
    "tokenizer is empty": (lambda f: (f / "tokenizer.json").write_text("{}"), "tokenizer cannot be loaded"),
    "only a pickle": (_pickled, "pytorch_model.bin"),
    "a link leaves it": (_link, "a link out of the model folder"),
    "garbage of generation": (
        lambda f: (f / "generation_config.json").write_text('{"eos_token_id": "rm -rf"}'),
        "eos_token_id is 'rm -rf'",
    ),
    "kernel of the hub": (
        lambda f: edit(f, "config.json", attn_implementation="someone/kernel"),
        "attn_implementation names code on the hub",
    ),
    "model and adapter": (
        lambda f: edit(f, "adapter_config.json", base_model_name_or_path="someone/base"),
        "both a model .* and an adapter",
    ),
    "code of its own": (lambda f: own_code(f, f.parent / "marker"), "code of its own .* never runs"),
}
AT_LOADING = frozenset({"tokenizer is empty"})
"""What shows when the tokenizer is made, and not from the files alone."""
