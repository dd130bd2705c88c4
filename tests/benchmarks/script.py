"""What every benchmark shares: it is a script that prints figures, and it takes the best of several tries."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def run_script(description: str | None, compare: Callable[..., dict[str, Any]], **numbers: int) -> None:
    """Print as JSON, and write where --json says, what `compare` returns; each of `numbers` is an option of it."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in numbers.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    parser.add_argument("--json", type=Path)
    options = vars(parser.parse_args())
    path = options.pop("json")
    text = json.dumps(compare(**options), indent=1)
    print(text)
    if path:
        path.write_text(text + "\n")


def best_of(work: Callable[[], object], tries: int = 10) -> float:
    """Return the CPU seconds of the fastest try."""
    seconds = []
    for _ in range(tries):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)
