"""Commands on what models wrote, and on models: samples, chat, export."""

from __future__ import annotations

from typing import Any

from pipelines.cli.parser.options import command, json_output, store
from pipelines.cli.parser.values import positive, temperature

SORTS = ("reward", "best", "length", "step")
MODEL = "RUN:stage.model, a registered model (name, name@alias, name/version), a digest, or a model folder"


def add_model_commands(commands: Any) -> None:
    """Add the commands."""
    samples = command(
        commands, "samples", "show what a run's models wrote, with verdicts and rewards", "samples:samples"
    )
    samples.add_argument("run", metavar="RUN[:STAGE]", help="a run, or one of its stages; also while it runs")
    samples.add_argument("--step", type=positive, metavar="N", help="only of this training step")
    for outcome in ("right", "wrong", "failed"):
        samples.add_argument(f"--{outcome}", action="store_true", help=f"only {outcome} ones (several may be given)")
    samples.add_argument("--domain", metavar="D", help="only of this domain")
    samples.add_argument("--search", default="", metavar="TEXT", help="only where prompt or response contain it")
    samples.add_argument("--prompt-id", metavar="ID", help="only of this prompt")
    samples.add_argument(
        "--sort",
        choices=SORTS,
        default=SORTS[0],
        help="reward: worst first; best: best first; length: longest first; step (default: %(default)s)",
    )
    samples.add_argument("--limit", type=positive, default=10, metavar="N", help="most samples (default: 10)")
    samples.add_argument("--full", action="store_true", help="whole texts")
    chat = command(commands, "chat", "talk to a model in the terminal", "chat:chat")
    chat.add_argument("model", metavar="MODEL", help=MODEL)
    chat.add_argument("--prompt", metavar="TEXT", help="answer this alone (default off a terminal: standard input)")
    chat.add_argument("--system", metavar="TEXT", help="a system message that opens the conversation")
    chat.add_argument(
        "--temperature", type=temperature, default=0.7, metavar="T", help="0: most probable (default: 0.7)"
    )
    chat.add_argument("--max-tokens", type=positive, default=512, metavar="N", help="longest answer (default: 512)")
    chat.add_argument("--seed", type=int, default=0, metavar="N", help="of sampling (default: 0)")
    export = command(commands, "export", "write a model as a Hugging Face folder with its model card", "export:export")
    export.add_argument("model", metavar="MODEL", help=MODEL)
    export.add_argument("folder", metavar="DIR", help="a new or empty folder")
    export.add_argument(
        "--adapter", action="store_true", help="only the LoRA adapter, for peft; default: merged weights"
    )
    export.add_argument(
        "--unchecked",
        action="store_true",
        help="do not load the folder by transformers and compare it with the trained model (needs the memory of both)",
    )
    export.add_argument(
        "--gguf",
        nargs="?",
        const="auto",
        choices=("auto", "f32", "f16", "bf16", "q8_0"),
        metavar="TYPE",
        help="also a GGUF file, by llama.cpp's converter on the PATH or in LLAMA_CPP (auto, f32, f16, bf16 or q8_0)",
    )
    for parser in (samples, chat, export):
        store(parser)
    for parser in (samples, export):
        json_output(parser)
