"""What the local engine's fork server imports: what stages would import one by one, and nothing that asks for a GPU."""

from __future__ import annotations

import json
import subprocess
import sys

PROBE = """
import importlib, json, sys
import torch
asked = []
def note(name):
    return lambda *arguments, **options: bool(asked.append(name))
for name in ("is_available", "is_initialized", "device_count", "_lazy_init"):
    setattr(torch.cuda, name, note(name))
from components.contract.registry import component_targets, components
for name in component_targets():
    for module in components().get(name).preloads:
        importlib.import_module(module)
found = list(asked)
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
loaded = set(sys.modules)
new_policy(ModelConfig(vocab_size=8, width=8, layers=1, heads=1, mlp_width=8), tokenizer=None, seed=0)
print(json.dumps([found, sorted(name for name in set(sys.modules) - loaded if name.startswith("torch."))]))
"""
FEW = 20


def test_a_stage_makes_its_model_with_what_is_there_and_no_gpu_was_touched() -> None:
    """Children of a process that has initialised CUDA cannot use it."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    asked, late = json.loads(done.stdout)
    assert asked == []
    assert len(late) < FEW, "torch._dynamo and torch.distributed are hundreds of modules, and seconds of every stage"
