"""A StageContext on a local folder: what stage tests run components in, with the real rules and no store.

`run_stage` runs a component to its end. Running it again on the same folder after an interruption resumes
from the last checkpoint, exactly as the launcher would: outputs, their metadata, logged rows and headline
metrics are again what they were at that checkpoint.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.artifacts import Manifest, describe_folder
from components.contract.component import Component
from components.contract.context import Input, Write
from components.contract.job import Job, UriRef
from components.contract.names import load_target
from components.contract.params import Params


class Interrupted(Exception):
    """Raised right after a checkpoint by a context that was told to stop there."""


@dataclass(frozen=True)
class Finished:
    """What a stage left behind."""

    outputs: dict[str, Path]
    manifests: dict[str, Manifest]
    metrics: dict[str, float]
    history: list[dict[str, float]]

    @property
    def digests(self) -> dict[str, str]:
        """Return the content digest of every output that was written."""
        return {port: manifest.digest for port, manifest in self.manifests.items()}


class Lines(list[str]):
    """Keeps the lines that are told to people."""

    def tell(self, text: str) -> None:
        """Keep a line."""
        self.append(text)


class LocalContext:
    """Implements components.contract.context.StageContext below `folder`.

    `inputs` maps a port to a folder, to (folder, metadata), or to a list of these. With `stop_after` the
    context raises Interrupted as soon as the checkpoint of a step >= it is committed. `due` says whether it is time
    for a checkpoint, where the parameters leave that to the clock.
    """

    def __init__(
        self,
        component: Component,
        folder: Path,
        *,
        params: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        seed: int = 0,
        device: str = "cpu",
        stop_after: int | None = None,
        due: Callable[[], bool] = lambda: False,
    ) -> None:
        self.component, self.folder, self.seed, self.device = component, folder, seed, device
        self.params: Any = component.params.model_validate(dict(params or {}))
        assert isinstance(self.params, Params)
        self.progress_calls: list[tuple[int, int, dict[str, float]]] = []
        self.metrics: dict[str, float] = {}
        self.reasons: dict[str, str] = {}
        self.lines: list[str] = []
        self._stop_after, self._due = stop_after, due
        self._inputs = self._open_inputs(inputs or {})
        self._metadata: dict[str, dict[str, Any]] = {}
        self._rows: list[dict[str, float]] = []
        self._logs: dict[str, list[Any]] = {}
        for name in ("outputs", "scratch"):
            shutil.rmtree(folder / name, ignore_errors=True)
        self.ends_at: int | None = None
        self.scratch = folder / "scratch"
        self.scratch.mkdir(parents=True)
        self.job = self._job(dict(params or {}))
        if (newest := self._newest_partial()) is not None:
            self._restore(newest)

    def _open_inputs(self, given: Mapping[str, Any]) -> dict[str, list[Input]]:
        ports = self.component.inputs
        unknown = set(given) - set(ports)
        assert not unknown, f"{self.component.name} has no input {unknown}"
        missing = [name for name, port in ports.items() if not port.optional and name not in given]
        assert not missing, f"{self.component.name} needs inputs {missing}"
        opened: dict[str, list[Input]] = {}
        for name, value in given.items():
            values = value if isinstance(value, list) else [value]
            assert len(values) == 1 or ports[name].many, f"input {name} takes one artifact"
            opened[name] = [self._open(name, item) for item in values]
        return opened

    def _open(self, port: str, value: Path | tuple[Path, dict[str, Any]]) -> Input:
        path, metadata = value if isinstance(value, tuple) else (value, {})
        kind = self.component.inputs[port].type
        digest = describe_folder(path, kind, metadata).digest
        return Input(type=kind, digest=digest, path=path, metadata=metadata, source=f"test.{port}")

    def _job(self, params: dict[str, Any]) -> Job:
        inputs = {p: [UriRef(uri=f"artifact:{i.digest}") for i in given] for p, given in self._inputs.items()}
        return Job(
            run_id="test",
            recipe="test",
            stage=self.component.name,
            component=self.component.name,
            params=params,
            inputs=inputs,
            seed=self.seed,
            store=str(self.folder / "store"),
        )

    def input(self, port: str) -> Input:
        """Return the one artifact of `port`; raise KeyError if it is not connected."""
        return self._inputs[port][0]

    def inputs(self, port: str) -> list[Input]:
        """Return all artifacts of `port`."""
        return list(self._inputs.get(port, []))

    def explain(self, alarm: str, reason: str) -> None:
        """Keep the first reason of an alarm."""
        self.reasons.setdefault(alarm, reason)

    def tell(self, text: str) -> None:
        """Keep a line for people."""
        self.lines.append(text)

    def output(self, port: str) -> Path:
        """Return the folder of output `port`, as it was at the last checkpoint, or empty."""
        assert port in self.component.outputs, f"{self.component.name} has no output {port!r}"
        path = self.folder / "outputs" / port
        path.mkdir(parents=True, exist_ok=True)
        return path

    def describe(self, port: str, **metadata: Any) -> None:
        """Add metadata to an output."""
        assert port in self.component.outputs, f"{self.component.name} has no output {port!r}"
        json.dumps(metadata, allow_nan=False)
        self._metadata.setdefault(port, {}).update(metadata)

    def progress(self, done: int, total: int, **metrics: float) -> None:
        """Remember the call for tests that look at it."""
        self.progress_calls.append((done, total, metrics))

    def log(self, step: int, **metrics: float) -> None:
        """Record one row; steps may not go backwards."""
        assert not self._rows or step >= self._rows[-1]["step"], f"row of step {step} after {self._rows[-1]}"
        json.dumps(metrics, allow_nan=False)
        self._rows.append({"step": step, **metrics})

    def headline(self, **metrics: float) -> None:
        """Record final metrics."""
        json.dumps(metrics, allow_nan=False)
        self.metrics.update(metrics)

    def history(self) -> list[dict[str, float]]:
        """Return all rows, those before a resume included."""
        return [dict(row) for row in self._rows]

    def records(self) -> dict[str, dict[str, Any]]:
        """Return what `record` kept."""
        return {}

    def record(self, key: str, value: dict[str, Any]) -> None:
        """Keep nothing: no test of one stage asks an endpoint."""

    def resume(self) -> Path | None:
        """Return what the last checkpoint wrote, or None at a fresh start."""
        newest = self._newest_partial()
        return newest and newest / "payload"

    def part(self, name: str) -> Path:
        """Return where a file of the checkpoint is."""
        folder = self.resume()
        assert folder is not None
        return folder / name

    def append(self, log: str, rows: Iterable[Any]) -> None:
        """Add rows to a log, as they are now."""
        self._logs.setdefault(log, []).extend(json.loads(json.dumps(list(rows))))

    def appended(self, log: str) -> list[Any]:
        """Return a log's rows at the last checkpoint."""
        newest = self._newest_partial()
        return [] if newest is None else json.loads((newest / "state.json").read_text())["logs"].get(log, [])

    def checkpoint_due(self, minutes: float | None) -> bool:
        """Return what `due` says: no clock decides what a test does."""
        return self._due()

    def checkpoint(self, step: int, write: Write) -> None:
        """Commit a partial checkpoint whole: written aside, then renamed."""
        aside = self.folder / "partial.tmp"
        shutil.rmtree(aside, ignore_errors=True)
        (aside / "payload").mkdir(parents=True)
        finish = write(aside / "payload")
        if (self.folder / "outputs").is_dir():
            shutil.copytree(self.folder / "outputs", aside / "outputs")
        if finish is not None:
            finish()
        state = {"rows": self._rows, "metadata": self._metadata, "metrics": self.metrics, "logs": self._logs}
        (aside / "state.json").write_text(json.dumps(state))
        final = self.folder / "partial" / f"step-{step:08d}"
        shutil.rmtree(final, ignore_errors=True)
        final.parent.mkdir(exist_ok=True)
        aside.rename(final)
        if self._stop_after is not None and step >= self._stop_after:
            raise Interrupted(f"stopped after the checkpoint of step {step}")

    def _restore(self, partial: Path) -> None:
        state = json.loads((partial / "state.json").read_text())
        self._rows, self._metadata, self.metrics = state["rows"], state["metadata"], state["metrics"]
        self._logs = state["logs"]
        if (partial / "outputs").is_dir():
            shutil.copytree(partial / "outputs", self.folder / "outputs")

    def _newest_partial(self) -> Path | None:
        return max(self.folder.glob("partial/step-*"), default=None)

    def finish(self) -> Finished:
        """Check that inputs are untouched and required outputs exist; drop partials; return what was made."""
        for port, given in self._inputs.items():
            for item in given:
                digest = describe_folder(item.path, item.type, dict(item.metadata)).digest
                assert digest == item.digest, f"the stage changed its input {port}"
        paths = {port: self.folder / "outputs" / port for port in self.component.outputs}
        paths = {port: path for port, path in paths.items() if path.is_dir() and any(path.iterdir())}
        for port, declared in self.component.outputs.items():
            assert declared.optional or port in paths, f"required output {port} was not written"
        manifests = {
            port: describe_folder(path, self.component.outputs[port].type, self._metadata.get(port))
            for port, path in paths.items()
        }
        shutil.rmtree(self.folder / "partial", ignore_errors=True)
        return Finished(paths, manifests, dict(self.metrics), self.history())


def run_stage(component: Component, folder: Path, **options: Any) -> Finished:
    """Run `component` in a LocalContext below `folder` (options as there) and return what it made."""
    context = LocalContext(component, folder, **options)
    load_target(component.run, f"component {component.name!r}")(context)
    return context.finish()


def write_jsonl(folder: Path, rows: Sequence[Mapping[str, Any]], *, name: str = "rows.jsonl") -> Path:
    """Write rows as a Dataset folder and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row, sort_keys=True, ensure_ascii=True) for row in rows]
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return folder
