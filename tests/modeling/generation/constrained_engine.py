"""An engine that draws of the languages it is told, which a reader of its own makes a list of texts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch

from components.modeling.generation.constraint import Constraint
from components.modeling.generation.engine.frames import Arrays, Header
from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.models.folder import load_tokenizer
from components.tasks.domains.worlds.automata import Trie
from tests.modeling.generation.native_engine import TYPES, NativeEngine

TERM = re.compile(r'("(?:[^"\\]|\\.)*")(?: ([\w-]+))?')


def texts_of(spec: dict[str, Any]) -> list[str]:
    """Return all texts of a language in the words of vLLM's structured outputs, sorted."""
    ((kind, value),) = spec.items()
    if kind == "choice":
        return sorted(value)
    assert kind == "grammar"
    rules: dict[str, list[tuple[str, str]]] = {}
    for line in value.split("\n"):
        name, _, right = line.partition(" ::= ")
        assert right and all(TERM.fullmatch(way) for way in right.split(" | ")), line
        rules[name] = [(json.loads(match[1]), match[2] or "") for match in TERM.finditer(right)]

    def expand(name: str) -> list[str]:
        return [text + rest for text, after in rules[name] for rest in (expand(after) if after else [""])]

    found = expand("root")
    assert len(found) == len(set(found)), "the grammar writes a text in two ways"
    return sorted(found)


class ConstrainedEngine(NativeEngine):
    """Reads the tokenizer from the folder that it starts with."""

    def start(self, folder: str, options: dict[str, Any]) -> Header:
        """Keep the tokenizer, too."""
        assert options["structured"]
        tokenizer = load_tokenizer(Path(folder))
        assert tokenizer is not None
        self.pieces = [tokenizer.decode([token]) for token in range(len(tokenizer))]
        return super().start(folder, options)

    def sample(self, settings: Header, arrays: Arrays) -> Arrays:
        """Draw request by request, each with its language."""
        found: dict[str, list[Any]] = {name: [] for name in TYPES}
        tries = [Trie(tuple(texts_of(spec))) for spec in settings["structured"]]
        columns = (arrays[name].tolist() for name in ("counts", "limits", "seeds", "languages"))
        prompts = np.split(arrays["tokens"], np.cumsum(arrays["lengths"])[:-1])
        for prompt, count, limit, seed, language in zip(prompts, *columns, strict=True):
            samples = generate(
                self.policy,
                [prompt.tolist()],
                SamplingConfig(num_samples=count, max_new_tokens=limit, temperature=settings["temperature"]),
                generator=torch.Generator().manual_seed(seed),
                processor=Constraint([tries[language]], self.pieces, settings["stop"]),
            )
            found["tokens"] += samples.flat(samples.tokens).tolist()
            found["logprobs"] += samples.flat(samples.logprobs).tolist()
            found["lengths"] += samples.lengths.tolist()
            found["finished"] += samples.finished.tolist()
        return {name: np.array(values, dtype=TYPES[name]) for name, values in found.items()}


class UnboundEngine(ConstrainedEngine):
    """Is told the languages and draws as it likes."""

    def sample(self, settings: Header, arrays: Arrays) -> Arrays:
        """Draw without any language."""
        return NativeEngine.sample(self, settings, arrays)
