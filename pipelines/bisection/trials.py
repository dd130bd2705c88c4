"""Runs of mixtures: each once, whichever command and whichever bisection executed it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.contract.terminal import visible_line
from components.runtime.ledger.ledger import load_run
from components.runtime.system.code import ROOT, VARIABLE
from pipelines.bisection.halves import Halves, Metric
from pipelines.engines.engine import RunOptions
from pipelines.engines.start import plan_run, start_run
from pipelines.language.problems import RecipeErrors
from pipelines.plan.forecast import Outlook
from pipelines.runs.measured import Measured
from pipelines.runs.view import PlainView

if TYPE_CHECKING:
    from components.contract.job import Job
    from components.runtime.store import Store
    from pipelines.plan.forecast import StageForecast
    from pipelines.recipe.recipe import Recipe

STOPPED = 130
CLIENT = Path("pipelines/client/src")
"""Where `import posttrain` is found in a checkout."""
MAX_REASON = 200


class RanView(PlainView):
    """Lines on stderr about the stages that run; not on those that are cached."""

    def __init__(self, _: str, jobs: list[Job]) -> None:
        super().__init__(jobs, sys.stderr)

    def event(self, event: dict[str, Any]) -> None:
        """Print what is not from the cache."""
        if event["event"] == "started" or event.get("cache") == "hit":
            self._states[event["stage"]].take(event)
        else:
            super().event(event)


class HalfFailed(InputError):
    """A mixture is no valid recipe, or a stage of it failed."""

    def __init__(self, reason: str, new_seconds: float = 0.0) -> None:
        text = visible_line(" ".join(reason.split()))
        super().__init__(text if len(text) <= MAX_REASON else f"{text[: MAX_REASON - 3]}...")
        self.new_seconds = new_seconds
        """What its stages took that were not shared."""


@dataclass(frozen=True)
class Measurement:
    """The metric of one mixture at one seed."""

    value: float
    seed: int
    run_id: str | None
    """The run that measured it; None where all of its work was in the store."""
    new_seconds: float
    """What its stages took that were not shared."""
    all_seconds: float
    """What all of its stages took when they ran."""


class Trials:
    """Measures mixtures, with every stage that was run before taken from the cache."""

    def __init__(self, store: Store, halves: Halves, metric: Metric, *, jobs: int | None = None) -> None:
        self._store, self._halves, self._metric = store, halves, metric
        self._options = RunOptions(jobs=jobs)
        self._known: dict[tuple[frozenset[int], int], Measurement | HalfFailed] = {}

    def at(self, chosen: frozenset[int], seed: int) -> Measurement:
        """Return the measurement of GOOD with these differences; raise HalfFailed, or KeyboardInterrupt on Ctrl-C."""
        key = chosen, seed
        if key not in self._known:
            try:
                self._known[key] = self._measure(chosen, seed)
            except HalfFailed as failed:
                self._known[key] = failed
        found = self._known[key]
        if isinstance(found, HalfFailed):
            raise found
        return found

    def spent(self, chosen: frozenset[int]) -> float:
        """Return what all stages of a mixture took that this bisection had to run, at all seeds."""
        return sum(one.new_seconds for (of, _), one in self._known.items() if of == chosen)

    def _measure(self, chosen: frozenset[int], seed: int) -> Measurement:
        root = self._halves.root(chosen)
        if root is not None:
            return self._run_elsewhere(chosen, seed, root)
        try:
            recipe = self._halves.recipe(chosen, seed)
            _, stages, _ = plan_run(recipe, self._store)
        except RecipeErrors as errors:
            problem = errors.problems[0]
            raise HalfFailed(f"no valid recipe: {problem.message}") from None
        except InputError as error:
            raise HalfFailed(str(error)) from None
        return self._from_cache(stages, seed) or self._run(recipe, seed)

    def _from_cache(self, stages: Collection[StageForecast], seed: int) -> Measurement | None:
        """Return the measurement of stages that have all run, without a run; None if one is missing."""
        named = self._metric.stage_at(seed)
        measuring = next((stage for stage in stages if stage.job.stage == named), None)
        if measuring is None:
            raise HalfFailed(f"stage {named} is left out: its condition, or that of a stage before it, does not hold")
        if measuring.action is None or any(stage.outlook is Outlook.RUN for stage in stages):
            return None
        value = measuring.action["metrics"].get(self._metric.name)
        if value is None:  # in the history, or in a file of its output
            return None
        seconds = sum(float(stage.action["seconds"]) for stage in stages if stage.action is not None)
        return Measurement(float(value), seed, None, 0.0, seconds)

    def _run(self, recipe: Recipe, seed: int) -> Measurement:
        _, result = start_run(recipe, self._store, engine="local", options=self._options, view=RanView)
        if result.exit_code == STOPPED:
            raise KeyboardInterrupt
        failures = [f"{stage}: {error}" for stage, error in result.failures.items()]
        return self._measured(
            result.run_id, seed, "; ".join(failures) or ("" if result.exit_code == 0 else result.status)
        )

    def _measured(self, run_id: str, seed: int, failure: str) -> Measurement:
        """Return the measurement of an ended run; raise HalfFailed if it failed or did not measure."""
        entries = load_run(self._store, run_id).stages
        new = sum(float(entry["seconds"]) for entry in entries.values() if entry["cache"] == "miss")
        measured = Measured(self._store, run_id)
        done = [name for name, entry in entries.items() if entry["status"] == "done"]
        try:
            if failure:
                raise InputError(failure)
            value = measured.value(self._metric.stage_at(seed), self._metric.name)
        except InputError as error:
            raise HalfFailed(str(error), new) from None
        return Measurement(value, seed, run_id, new, sum(measured.seconds(name) for name in done))

    def _run_elsewhere(self, chosen: frozenset[int], seed: int, root: Path) -> Measurement:
        """Run a mixture by the code in another folder, in a process of its own."""
        path = self._halves.write(chosen)
        options = [part for text in self._halves.overrides(chosen, seed) for part in ("--set", text)]
        jobs = ["--jobs", str(self._options.jobs)] if self._options.jobs else []
        command = [sys.executable, "-m", "pipelines.cli", "run", str(path), *options, "--store", self._store.uri]
        done = subprocess.run(
            [*command, "--json", *jobs],
            env=_environment(root, self._halves.code_title(chosen)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode in (STOPPED, -signal.SIGINT, -signal.SIGTERM):
            raise KeyboardInterrupt
        try:
            shown = json.loads(done.stdout)
            run_id = str(shown["run_id"])
        except (ValueError, KeyError, TypeError):
            said = (done.stderr or done.stdout).strip().splitlines()
            raise HalfFailed(said[-1] if said else f"exit code {done.returncode}") from None
        failed = load_run(self._store, run_id).failed
        failures = [f"{stage}: {error}" for stage, error in failed.items()]
        failure = "; ".join(failures) or str(shown.get("status"))
        return self._measured(run_id, seed, "" if done.returncode == 0 else failure)


def _environment(root: Path, title: str) -> dict[str, str]:
    """Return the variables of a process that runs the code in a folder."""
    own = (ROOT, ROOT / CLIENT)
    given = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    others = [entry for entry in given if Path(entry).resolve() not in own]
    paths = [str(root), str(root / CLIENT), *others]
    code = json.dumps({"version": title, "dirty": True, "lock": None})
    # the safe path: else the working folder comes first, which may be a checkout
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1", VARIABLE: code}
