"""posttrain chat: talk to a model in the terminal."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from components.contract.terminal import visible
from pipelines.cli.stopping import terminate_like_interrupt
from pipelines.cli.stores import store_of
from pipelines.models.find import model_of

if TYPE_CHECKING:
    from components.modeling.models.policy import Policy
    from pipelines.models.conversation import Conversation

ASK = "> "
NEW = "/new"
INTERRUPTED = 130


def chat(arguments: argparse.Namespace) -> int:
    """Answer one prompt, or hold a conversation until Ctrl-D (exit code 0) or Ctrl-C at the prompt (130)."""
    terminate_like_interrupt()
    alone = arguments.prompt
    if alone is None and not sys.stdin.isatty():
        alone = _piped()
    if alone is not None and not alone.strip():
        raise InputError("the prompt is empty")  # before a model is loaded
    model = model_of(store_of(arguments), arguments.model)
    talk, policy = _opened(arguments, model.folder)
    if alone is not None:
        _say(talk, alone)
        return 0
    size = f"{sum(weight.numel() for weight in policy.module.parameters()):,} parameters"
    print(f"{model.name}, {size}; {NEW} starts anew, Ctrl-C stops an answer, Ctrl-D ends", file=sys.stderr)
    if talk.forgets:
        print("its chat template holds a single turn: each prompt is answered on its own", file=sys.stderr)
    return _hold(talk)


def _piped() -> str:
    """Return standard input as one prompt."""
    try:
        return sys.stdin.read().rstrip("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8: {error}") from None


def _opened(arguments: argparse.Namespace, folder: object) -> tuple[Conversation, Policy]:
    import torch

    from components.modeling.generation.sampling_config import SamplingConfig
    from components.modeling.loading.load import load_policy
    from pipelines.models.conversation import Conversation

    gpu = torch.cuda.is_available()
    policy = load_policy(str(folder), device="cuda" if gpu else "cpu", dtype="bfloat16" if gpu else "float32")
    config = SamplingConfig(max_new_tokens=arguments.max_tokens, temperature=arguments.temperature)
    return Conversation(policy, config, system=arguments.system, seed=arguments.seed), policy


def _hold(talk: Conversation) -> int:
    with suppress(ImportError):
        import readline  # noqa: F401 - gives the prompt its line editing and history
    while True:
        try:
            prompt = input(ASK)
        except EOFError:
            print()
            return 0
        except KeyboardInterrupt:
            print()
            return INTERRUPTED
        if not prompt.strip():
            continue
        if prompt.strip() == NEW:
            talk.restart()
            continue
        try:
            _say(talk, prompt)
        except InputError as error:
            print(visible(str(error)), file=sys.stderr)
        except KeyboardInterrupt:
            print()


def _say(talk: Conversation, prompt: str) -> None:
    for piece in talk.answer(prompt):
        print(piece, end="", flush=True)
    print(flush=True)
