"""Run one step in a process of its own, and say what came of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.gpu.device import ON_GPU
from tests.gpu.steps import ROOT, Step

SHOWN = 3
"""Names of failed tests, or of missed thresholds, that a line tells."""


@dataclass(frozen=True)
class Outcome:
    """What came of a step."""

    step: Step
    verdict: str
    """pass, fail, miss (a threshold), left out, or too long."""
    seconds: float
    said: str
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def is_bad(self) -> bool:
        """Return whether someone has to look."""
        return self.verdict not in ("pass", "left out")


def run_step(step: Step, kind: str, where: dict[str, Any], folder: Path, *, limit: float) -> Outcome:
    """Run a step and write its JSON file."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder.absolute() / f"{kind}-{step.name}"
    outcome = _left_out(step) or _run(step, place, limit)
    content = {
        "step": step.name,
        "what": step.what,
        "kind": kind,
        **where,
        "seconds": round(outcome.seconds, 1),
        "verdict": outcome.verdict,
        "said": outcome.said,
        **outcome.details,
    }
    aside = place.with_suffix(".json.tmp")
    aside.write_text(json.dumps(content, indent=1) + "\n")
    aside.rename(place.with_suffix(".json"))
    return outcome


def _left_out(step: Step) -> Outcome | None:
    missing = [package for package in step.needs if find_spec(package) is None]
    if missing:
        return Outcome(step, "left out", 0.0, f"not installed: {', '.join(missing)}")
    if not ON_GPU and not step.rehearsed:
        return Outcome(step, "left out", 0.0, "these tests name the device cuda themselves")
    return None


def _run(step: Step, place: Path, limit: float) -> Outcome:
    result = place.with_suffix(".xml" if not step.is_benchmark else ".figures")
    result.unlink(missing_ok=True)
    began = time.monotonic()
    with place.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(
            _command(step, result), cwd=ROOT, env=_environment(), stdout=log, stderr=log, start_new_session=True
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return Outcome(step, "too long", time.monotonic() - began, f"killed after {limit:.0f} s")
    seconds = time.monotonic() - began
    if not result.is_file():
        last = [text for text in place.with_suffix(".log").read_text().splitlines() if text.strip()][-1:]
        return Outcome(step, "fail", seconds, f"exit code {code}: {' '.join(last)[:200]}")
    read = _figures if step.is_benchmark else _tests
    verdict, said, details = read(result, code)
    result.unlink()
    return Outcome(step, verdict, seconds, said, details)


def _command(step: Step, result: Path) -> list[str]:
    if step.is_benchmark:
        return [sys.executable, "-m", *step.files, "--json", str(result)]
    options = ["-q", "-p", "no:cacheprovider", "-m", "gpu", "--durations=5", f"--junitxml={result}"]
    settings = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    return [sys.executable, "-m", "pytest", *settings, *options, *step.files]


def _environment() -> dict[str, str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    hidden = {} if ON_GPU else {"CUDA_VISIBLE_DEVICES": ""}  # a rehearsal touches no GPU
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "HF_HUB_OFFLINE": "1", **hidden}


def _tests(result: Path, code: int) -> tuple[str, str, dict[str, Any]]:
    """Return verdict, words and details of pytest's report."""
    cases = list(ElementTree.parse(result).iter("testcase"))
    kinds: Counter[str] = Counter()
    failed, skipped = [], {}
    for case in cases:
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            kinds["failed"] += 1
            failed.append(name)
        elif (skip := case.find("skipped")) is not None:
            kinds["skipped"] += 1
            skipped[name] = skip.get("message", "")
        else:
            kinds["passed"] += 1
    said = ", ".join(f"{kinds[kind]} {kind}" for kind in ("passed", "skipped", "failed") if kinds[kind])
    if failed:
        said += f": {', '.join(failed[:SHOWN])}"
    details = {"passed": kinds["passed"], "failed": failed, "skipped": skipped}
    if failed or code or not kinds:
        return "fail", said or f"no test ran (exit code {code})", details
    return "pass" if kinds["passed"] else "left out", said, details


def _figures(result: Path, code: int) -> tuple[str, str, dict[str, Any]]:
    """Return verdict, words and details of a benchmark's figures."""
    details = json.loads(result.read_text())
    missed = [figure["name"] for figure in details["figures"] if figure.get("verdict") == "miss"]
    if code:
        return "fail", f"exit code {code}", details
    shown = [f"{figure['name']} {figure['value']:g} {figure['unit']}" for figure in details["figures"][:SHOWN]]
    if missed:
        return "miss", f"below its threshold: {', '.join(missed[:SHOWN])}", details
    return "pass", "; ".join(shown), details
