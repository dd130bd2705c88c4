"""posttrain new: write a recipe to start from."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from components.contract.terminal import visible_line
from pipelines.cli.output import print_json
from pipelines.templates.new import TEMPLATES, write_new


def new(arguments: argparse.Namespace) -> int:
    """Write a recipe into a new folder, and say which commands come next."""
    files = write_new(arguments.name, arguments.template)
    commands = _next(files[0], arguments.template)
    if arguments.json:
        print_json({"files": [str(path) for path in files], "next": [command for command, _ in commands]})
        return 0
    print(f"{visible_line(arguments.name)}: from {arguments.template}, {TEMPLATES[arguments.template].summary}")
    for path in files:
        print(f"  {visible_line(str(path))}")
    print("\nnext:")
    width = max(len(command) for command, _ in commands)
    for command, what in commands:
        print(f"  {command.ljust(width)}   {what}")
    return 0


def _next(recipe: Path, template: str) -> list[tuple[str, str]]:
    """Return the next three commands, each with what it does."""
    name, folder = shlex.quote(visible_line(str(recipe))), recipe.parent
    scale = " --set scale=tiny" if template == "gsm8k" else ""
    plan = (f"posttrain plan {name}{scale}", "what would run")
    run = (f"posttrain run {name}{scale}", "run it; the same command resumes after a stop")
    if template != "own-data":
        return [(f"posttrain validate {name}", "mistakes, with file and line"), plan, run]
    reward, rows = (shlex.quote(visible_line(str(folder / file))) for file in ("my_reward.py:reward", "rows.jsonl"))
    return [(f"posttrain try {reward} --data {rows}", "what the reward says of right and wrong answers"), plan, run]
