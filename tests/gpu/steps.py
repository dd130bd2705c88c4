"""The steps of `make test-gpu`, `make bench-gpu` and `make first-node`: each takes at most eight minutes on one GPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = "tests/gpu"
MARK = "mark.gpu"
LIMIT_SECONDS = 480


@dataclass(frozen=True)
class Step:
    """Something that runs by itself in a process of its own."""

    name: str
    what: str
    files: tuple[str, ...]
    """Test files, or the module of a benchmark."""
    needs: tuple[str, ...] = ()
    """Packages beyond torch and transformers; without them the step is left out, with the reason."""
    is_benchmark: bool = False
    rehearsed: bool = True
    """Whether it runs on a CPU, too."""


TESTS = (
    Step("packed", "packed groups against float64 and transformers", (f"{HERE}/test_packed_groups.py",)),
    Step("head", "log-probabilities and entropies at a vocabulary of 152k", (f"{HERE}/test_head.py",)),
    Step("waits", "no layer makes the host wait for the GPU", (f"{HERE}/test_waits.py",)),
    Step("kernels", "attention's kernels and compiled operators", (f"{HERE}/test_kernels.py",)),
    Step("sft", "float32 against bfloat16, recompute, kill and resume", (f"{HERE}/test_sft.py",)),
    Step("memory", "the peak of a training against its estimate", (f"{HERE}/test_memory.py",)),
    Step("ranks", "2 and 4 ranks on one device by gloo: replicas, FSDP, context groups", (f"{HERE}/test_ranks.py",)),
    Step("sampler", "native sampler against transformers; a stand-in engine", (f"{HERE}/test_sampler.py",)),
    Step("rl", "GRPO on a tiny task: the reward rises", (f"{HERE}/test_rl.py",)),
    Step("shortage", "out of memory names the right knob", (f"{HERE}/test_shortage.py",)),
    Step("tokenizers", "turn ends of six families", (f"{HERE}/test_tokenizers.py",)),
    Step("families", "Gemma, LoRA, QLoRA, mixtures of experts", (f"{HERE}/test_families.py",)),
    Step("zero", "ZeRO 1 to 3 in one process", (f"{HERE}/test_zero.py",), needs=("deepspeed",)),
)
NODE = (
    Step("vllm", "vLLM as the sampler: weights, log-probabilities, sleep", (f"{HERE}/test_vllm.py",), needs=("vllm",)),
    Step("gpus", "all GPUs by NCCL: bandwidth, and FSDP on each of them", (f"{HERE}/test_several_gpus.py",)),
    Step(
        "recipe",
        "gsm8k, every stage, on this node's GPUs",
        (f"{HERE}/test_recipe.py",),
        needs=("mlflow", "math_verify"),
    ),
)
"""What only a whole node can tell, beside all others."""
_BENCH = "tests.benchmarks.gpu"
BENCHMARKS = tuple(
    Step(name, what, (f"{_BENCH}.bench_{name}",), is_benchmark=True)
    for name, what in (
        ("attention", "attention alone, forward and backward"),
        ("head", "head and loss at a vocabulary of 152k"),
        ("sft", "tokens per second and model FLOP utilisation of SFT"),
        ("learner", "one update of RL"),
        ("weights", "weights from the trainer to the sampler"),
        ("decode", "native decoding"),
        ("checkpoint", "what a checkpoint stops and writes"),
        ("rl", "a whole step of RL, and how long the device is idle in each phase"),
    )
)


def steps(kind: str) -> tuple[Step, ...]:
    """Return the steps of `test`, `bench` or `node`; tests elsewhere that carry the marker gpu are steps of `test`."""
    return {"bench": BENCHMARKS, "node": NODE}.get(kind) or (*TESTS, *marked())


def marked() -> tuple[Step, ...]:
    """Return a step for each room of tests, outside of this one, that has tests marked `gpu`."""
    rooms: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        place = path.relative_to(ROOT).as_posix()
        if not place.startswith(f"{HERE}/") and MARK in path.read_text():
            rooms.setdefault("-".join(path.relative_to(ROOT / "tests").parts[:-1]), []).append(place)
    return tuple(
        Step(room, f"tests marked gpu in tests/{room.replace('-', '/')}", tuple(files), rehearsed=False)
        for room, files in rooms.items()
    )
