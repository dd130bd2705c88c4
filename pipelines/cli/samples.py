"""posttrain samples: what a run's models wrote, with verdicts and rewards."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from components.contract.samples import Sample, shortened
from components.contract.terminal import visible
from pipelines.cli.output import print_json
from pipelines.cli.stores import store_of
from pipelines.runs.find import find_run
from pipelines.runs.samples import Found, StageSamples, Wish, find_samples, one_line, reward_text

if TYPE_CHECKING:
    from rich.text import Text

SHOWN_HEAD, SHOWN_TAIL = 700, 300
"""Characters shown of a longer text, unless all of it is asked for."""
OUTCOME_STYLES = {"right": "bold green", "wrong": "bold red", "failed": "bold yellow"}
AUTHOR_STYLES = {"system": "dim", "user": "cyan", "policy": "", "other": "magenta"}
AUTHOR_NAMES = {"system": "system", "user": "prompt", "policy": "model", "other": "other author"}


def samples(arguments: argparse.Namespace) -> int:
    """Print samples of a run or of one of its stages; the exit code is 1 if none matches."""
    from components.runtime.ledger.ledger import load_run

    store = store_of(arguments)
    run_text, _, stage = arguments.run.partition(":")
    run = load_run(store, find_run(store, run_text))
    outcomes = frozenset(name for name in ("right", "wrong", "failed") if getattr(arguments, name))
    wish = Wish(
        step=arguments.step,
        outcomes=outcomes,
        domain=arguments.domain,
        words=arguments.search,
        prompt_id=arguments.prompt_id,
        sort=arguments.sort,
        limit=arguments.limit,
    )
    found = find_samples(store, run, stage or None, wish)
    if arguments.json:
        print_json({"run_id": run.run_id, **found.to_json()})
    else:
        _print(found, whole=arguments.full)
    return 0 if found.chosen else 1


def _print(found: Found, *, whole: bool) -> None:
    from rich.console import Console
    from rich.rule import Rule

    console = Console(soft_wrap=not sys.stdout.isatty())
    for stage, sample in found.chosen:
        facts = _facts(stage, sample)
        console.print(Rule(facts, align="left", style="dim") if console.is_terminal else facts)
        console.print(_written(sample, whole=whole), "")
    for note in found.notes:
        print(visible(note))
    more = found.num_matching - len(found.chosen)
    if not found.num_matching:
        print("no sample matches; these stages have some: " + ", ".join(stage.stage for stage in found.stages))
    elif more > 0:
        print(f"{len(found.chosen)} of {found.num_matching} samples; --limit N shows more, --full whole texts")


def _written(sample: Sample, *, whole: bool) -> Text:
    """Return who wrote what, coloured by author, and the answer."""
    from rich.text import Text

    lines = Text()
    pieces = [(AUTHOR_NAMES[who], AUTHOR_STYLES[who], text) for who, text in sample.pieces()]
    if sample.answer is not None:
        pieces.append(("answer", "", sample.answer))
    for name, style, text in pieces:
        shown = visible(text if whole else shortened(text, SHOWN_HEAD, SHOWN_TAIL)) or "(nothing)"
        lines.append(f"{name}\n", style=f"{style} italic")
        lines.append("".join(f"  {line}\n" for line in shown.split("\n")), style=style)
    return lines


def _facts(stage: StageSamples, sample: Sample) -> Text:
    """Return where a sample is from, its verdict with the reason, its reward with its parts, and its length."""
    from rich.text import Text

    facts = [Text(stage.stage, style="bold")]
    facts += [Text(f"step {sample.step}")] if sample.step is not None else []
    facts += [Text(visible(sample.domain))] if sample.domain else []
    if sample.outcome:
        reason = f": {one_line(sample.detail)}" if sample.detail else ""
        name = visible(sample.outcome)
        facts.append(Text.assemble((name, OUTCOME_STYLES.get(name, "")), reason))
    facts += [Text(reward_text(sample))] if sample.reward is not None else []
    count = sample.num_tokens
    facts += [Text(f"{count} token{'' if count == 1 else 's'}")] if count is not None else []
    facts += [Text("truncated", style="yellow")] if sample.truncated else []
    return Text(" | ").join(facts)
