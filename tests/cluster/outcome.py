"""One step, what came of it, its JSON file, and the report of all."""

from __future__ import annotations

import json
import re
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.contract.errors import PosttrainError
from components.contract.terminal import visible
from pipelines.language.whole_file import write_whole
from tests.cluster.act import Wrong
from tests.cluster.session import LeftOut, Session
from tests.gpu.outcome import Outcome
from tests.gpu.report import TABLE, row

SHOWN = 2
_SECRET = re.compile(r"(?i)(bearer\s+|token[=:]\s*|password[=:]\s*)\S+")


@dataclass
class Result:
    """What a step says when it came to its end."""

    said: str
    wrong: list[str] = field(default_factory=list)
    """What must hold, and does not."""
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """Something that is done to a cluster, and what must hold afterwards."""

    name: str
    what: str
    holds: str
    """What must hold, for the report and the README."""
    do: Callable[[Session], Result]
    by_name: bool = False
    """Whether it is left out unless it is named."""


def take(step: Step, session: Session, where: Mapping[str, Any]) -> Outcome:
    """Take a step and write its JSON file."""
    began, wrong, details = time.monotonic(), [], {}
    try:
        result = step.do(session)
        said, wrong, details = result.said, result.wrong, result.details
        verdict = "fail" if wrong else "pass"
    except LeftOut as reason:
        verdict, said = "left out", str(reason)
    except (Wrong, PosttrainError) as error:
        verdict, said, wrong = "fail", str(error), [str(error)]
    except Exception as error:  # a step that breaks must not keep the others from being taken
        said = f"{type(error).__name__}: {error}"
        verdict, wrong, details = "fail", [said], {"traceback": clean(traceback.format_exc()).splitlines()}
    if wrong:
        said = "; ".join(wrong[:SHOWN]) + (f"; {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else "")
        session.forget(step.name)  # another try is another run: this one's work is done already
    outcome = Outcome(step, verdict, time.monotonic() - began, clean(" ".join(said.split())), details)  # type: ignore[arg-type]
    content = {"step": step.name, "what": step.what, "must_hold": step.holds, **where, "verdict": verdict}
    content |= {"seconds": round(outcome.seconds, 1), "said": outcome.said, "wrong": [clean(text) for text in wrong]}
    session.folder.mkdir(parents=True, exist_ok=True)
    write_whole(place_of(session.folder, step.name), json.dumps({**content, **details}, indent=1) + "\n")
    return outcome


def passed(folder: Path, name: str) -> bool:
    """Return whether a step has passed before, by its file."""
    path = place_of(folder, name)
    return path.is_file() and json.loads(path.read_text())["verdict"] == "pass"


def place_of(folder: Path, name: str) -> Path:
    """Return the file of a step."""
    return folder / f"test-{name}.json"


def write_report(folder: Path, steps: Sequence[Step]) -> Path:
    """Write report.md from the files of all steps, those of earlier calls too; return its path."""
    found = {
        step.name: json.loads(path.read_text()) for step in steps if (path := place_of(folder, step.name)).exists()
    }
    first = next(iter(found.values()), {})
    seen = [f"- {name}: {first[name]}" for name in ("context", "server", "nodes", "tree") if name in first]
    rows = [_row(step, found.get(step.name)) for step in steps]
    parts = ["# A first cluster", "\n".join(seen), "\n".join([TABLE, *rows])]
    for name, told in found.items():
        if told["wrong"]:
            parts += [f"## {name}: what did not hold", "\n".join(f"- {text}" for text in told["wrong"])]
    path = folder / "report.md"
    write_whole(path, "\n\n".join(filter(None, parts)) + "\n")
    return path


def clean(text: str) -> str:
    """Return text for a file that people pass on: no control characters, no tokens."""
    return _SECRET.sub(r"\1***", visible(text))


def _row(step: Step, told: Mapping[str, Any] | None) -> str:
    if told is None:
        return row("", Outcome(step, "not run", 0.0, ""))  # type: ignore[arg-type]
    return row("", Outcome(step, told["verdict"], told["seconds"], told["said"]))  # type: ignore[arg-type]
