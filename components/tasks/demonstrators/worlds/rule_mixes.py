"""Writes what generator `skill_mix` of synthesize asks for: an instruction that needs some rules, and its response."""

from __future__ import annotations

import random
from collections.abc import Sequence

from pydantic import Field

from components.contract.errors import InputError
from components.tasks.demonstrators.worlds.generators import GeneratorsTraceConfig, generators
from components.tasks.domains.worlds.compositions import compositions
from components.tasks.domains.worlds.string_functions import FIRST, KEEPS_LENGTH, MIN_LETTERS, apply_all
from components.tasks.item import Item

MAX_TRIES = 50
"""Words drawn for one instruction: rules that undo each other leave every word as it was."""


class RuleMixesConfig(GeneratorsTraceConfig):
    """Which words are asked for, which mixes are left for evaluation, and how careful the writer is."""

    rules: int = Field(default=12, ge=2, le=len(KEEPS_LENGTH))
    """As in source `generators`, whose unseen compositions must be found again."""
    length: int = Field(default=4, ge=3, le=64)
    """Letters of a word, as in the source."""
    letters: int = Field(default=8, ge=MIN_LETTERS, le=26)
    """Size of the alphabet, as in the source."""
    world: int = 0
    """The source's."""
    unseen: int = Field(default=16, ge=0)
    """Compositions of the source that nothing is written for, in whatever order their rules are named."""


def rule_mixes(item: Item, rng: random.Random, *, config: RuleMixesConfig) -> str:
    """Write `<instruction>rev nxt: abch</instruction><response><think>hcba<answer>adcb</response>`.

    Kaur et al. 2024 (Instruct-SkillMix), `shirk` being its shirkers. What is left for evaluation, or changes no word,
    gets an empty text, which the generator drops as unparsed.
    """
    names = item.data.get("names")
    if not (isinstance(names, Sequence) and names and all(name in KEEPS_LENGTH for name in names)):
        known = ", ".join(KEEPS_LENGTH)
        raise InputError(f"demonstrator rule_mixes: item {item.id} names the rules {names!r:.80} (known: {known})")
    if _is_unseen(frozenset(names), config):
        return ""
    for _ in range(MAX_TRIES):
        word = "".join(chr(FIRST + rng.randrange(config.letters)) for _ in range(config.length))
        steps = apply_all(names, word, config.letters)
        if steps[-1] not in (word, *steps[:-1]):
            break
    else:
        return ""
    worked = item.model_copy(update={"data": {"word": word, "steps": steps}})
    response = generators(worked, rng, config=config)
    return f"<instruction>{' '.join(names)}: {word}</instruction><response>{response}</response>"


def _is_unseen(names: frozenset[str], config: RuleMixesConfig) -> bool:
    if len(names) < 2 or not config.unseen:
        return False
    there = compositions(config.rules, len(names), config.length, config.letters, config.world)
    return names in map(frozenset, there[len(there) - config.unseen :])
