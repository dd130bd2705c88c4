"""The tasks of a recipe's pipeline: one that begins the run, one for each stage, one that ends it.

Of a recipe that is too large for one pipeline, a part is a pipeline of its own with the tasks of some stages, and the
run's pipeline has one task for each part (see parts.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kfp import dsl

from components.contract.artifacts import ArtifactType
from components.contract.job import FirstOf, StageRef, alternatives
from pipelines.engines.driver.command import driver_arguments
from pipelines.engines.driver.manifests.work import is_driven
from pipelines.engines.kubeflow.compiler.form import REQUIRED, Form
from pipelines.engines.kubeflow.compiler.ir import Argument, Container, path_of, result_path, value_of
from pipelines.engines.kubeflow.compiler.parts import Packed
from pipelines.engines.kubeflow.compiler.placement import (
    OWN_RETRY,
    WAITING,
    WORKING,
    place_driver,
    place_own,
    place_part,
    place_stage,
    retry,
)
from pipelines.engines.kubeflow.compiler.settings import Settings
from pipelines.engines.kubeflow.names import (
    END,
    EXECUTOR_INPUT,
    PLAN,
    RUN_ID,
    RUN_PLACEHOLDER,
    STORE,
    approval_task,
    identifier,
    many_input,
    numbered_port,
    part_task,
    task_name,
)
from pipelines.engines.kubeflow.run_pages import PAGES
from pipelines.engines.shared.launcher import container_environment
from pipelines.plan.plan import stage_job
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.stage import Stage

MODULES = "pipelines.engines.kubeflow"
_TEXT: tuple[type, Any] = (str, REQUIRED)


class Drawing:
    """Adds the tasks of one recipe to the pipeline under construction."""

    def __init__(self, recipe: Recipe, settings: Settings, form: Form, bundle: str) -> None:
        """`form` has the parameters of the run's pipeline, `bundle` the recipe as it travels there."""
        self._recipe, self._settings, self._form, self._bundle = recipe, settings, form, bundle
        self._image = settings.images["cpu"]
        self._tasks: dict[str, Any] = {}

    def whole(self, **channels: Any) -> None:
        """Add all tasks; `channels` are the pipeline's parameters."""
        self._store = channels[STORE]
        with dsl.ExitHandler(self._end(), name="run"):
            self._begin(channels)
            for stage in self._recipe.stages:
                self._stage(stage)

    def run_of_parts(self, parts: Sequence[Packed], **channels: Any) -> None:
        """Add the first and the last task, and between them one for each part."""
        self._store = channels[STORE]
        with dsl.ExitHandler(self._end(), name="run"):
            self._begin(channels)
            for part in parts:
                self._part(part, len(parts))

    def part(self, stages: Sequence[Stage], **channels: Any) -> None:
        """Add the tasks of some stages, in a run that has begun elsewhere."""
        self._store, self._run_id = channels[STORE], channels[RUN_ID]
        for stage in stages:
            self._stage(stage)

    def _begin(self, channels: dict[str, Any]) -> None:
        arguments: list[Argument] = ["--bundle", self._bundle, "--kubeflow-run", value_of("kubeflow_run")]
        arguments += ["--executor-input", EXECUTOR_INPUT, "--run-id", result_path("run_id")]
        parameters = {name: (kind, REQUIRED) for name, (kind, _) in self._form.items()} | {"kubeflow_run": _TEXT}
        container = self._own(PLAN, "begin", arguments, parameters, results=("run_id",))
        task = container.component()(**channels, kubeflow_run=RUN_PLACEHOLDER)
        place_own(task, self._recipe, self._settings, WORKING)
        retry(task, OWN_RETRY)
        self._run_id = task.set_display_name("plan").outputs["run_id"]

    def _end(self) -> Any:
        arguments: list[Argument] = ["--store", value_of("store"), "--kubeflow-run", value_of("kubeflow_run")]
        arguments += ["--executor-input", EXECUTOR_INPUT, *_pointed(PAGES)]
        container = self._own(
            END,
            "ending",
            arguments,
            {"store": _TEXT, "kubeflow_run": _TEXT},
            status_input="final_status",
            outputs=PAGES,
        )
        task = container.component()(store=self._store, kubeflow_run=RUN_PLACEHOLDER)
        place_own(task, self._recipe, self._settings, WORKING)
        retry(task, OWN_RETRY)
        return task.set_display_name("report")

    def _part(self, part: Packed, count: int) -> None:
        arguments: list[Argument] = ["--store", value_of("store"), "--run", value_of("run_id")]
        arguments += ["--kubeflow-run", value_of("kubeflow_run"), "--part", f"{part.number}/{count}"]
        arguments += ["--kubeflow", self._settings.api, "--pipeline", part.text]
        name = part_task(part.number)
        container = self._own(name, "part", arguments, {"run_id": _TEXT, "store": _TEXT, "kubeflow_run": _TEXT})
        task = container.component()(run_id=self._run_id, store=self._store, kubeflow_run=RUN_PLACEHOLDER)
        place_part(task, self._recipe, self._settings)
        retry(task, OWN_RETRY)
        task.set_display_name(f"part {part.number} of {count}: {part.stages} stages")
        self._tasks[name] = task.after(*(self._tasks[part_task(number)] for number in part.after))

    def _stage(self, stage: Stage) -> None:
        before = [self._tasks[name] for name in stage.after if name in self._tasks]
        question = self._approval(stage, before) if stage.approve else None
        pool = self._recipe.pools[stage.pool]
        wired = self._wired(stage)
        remote = runs_remotely(stage, self._recipe)
        container = stage_container(stage, self._settings.image(pool), list(wired))
        if remote:
            container = driver_container(stage, self._recipe, self._settings, list(wired))
        task = container.component()(run_id=self._run_id, store=self._store, stage=stage.name, **wired)
        place = place_driver if remote else place_stage
        place(task, stage, self._recipe, self._settings)
        task.set_display_name(stage.title)
        task.after(*([question] if question else before))
        self._tasks[stage.name] = task

    def _approval(self, stage: Stage, before: list[Any]) -> Any:
        arguments: list[Argument] = ["--store", value_of("store"), "--run", value_of("run_id")]
        arguments += ["--stage", value_of("stage")]
        parameters = {"run_id": _TEXT, "store": _TEXT, "stage": _TEXT}
        container = self._own(approval_task(stage.name), "approval", arguments, parameters)
        task = container.component()(run_id=self._run_id, store=self._store, stage=stage.name)
        place_own(task, self._recipe, self._settings, WAITING)
        retry(task, OWN_RETRY)
        return task.set_display_name(f"approve {stage.title}").after(*before)

    def _own(self, name: str, module: str, arguments: list[Argument], parameters: Form, **more: Any) -> Container:
        command = ["python", "-m", f"{MODULES}.{module}"]
        return Container(name, self._image, command, arguments, parameters, env=container_environment(), **more)

    def _wired(self, stage: Stage) -> dict[str, Any]:
        """Return input -> the output of an earlier task; inputs from elsewhere are in the job alone."""
        wired: dict[str, Any] = {}
        for port, references in stage.inputs.items():
            numbered = stage.component.inputs[port].many or any(isinstance(ref, FirstOf) for ref in references)
            for number, reference in enumerate(alternatives(references), 1):
                if isinstance(reference, StageRef) and reference.stage in self._tasks:
                    name = many_input(port, number) if numbered else identifier(port)
                    wired[name] = self._tasks[reference.stage].outputs[identifier(reference.port)]
        return wired


def _pointed(outputs: Iterable[str]) -> list[Argument]:
    """Return a flag for each output, with the file that it is."""
    return [word for name in outputs for word in (f"--{name}", path_of(name))]


def runs_remotely(stage: Stage, recipe: Recipe) -> bool:
    """Return whether a stage runs on nodes of its pool, driven by its task; the others run in the task's container."""
    return is_driven(stage_job(stage, recipe, "", ""), recipe.pools[stage.pool])


def stage_container(stage: Stage, image: str, wired: list[str]) -> Container:
    """Return the container of a stage, made from its component's declaration."""
    return _container(stage, image, "stage", [], wired)


def driver_container(stage: Stage, recipe: Recipe, settings: Settings, wired: list[str]) -> Container:
    """Return the container that drives a stage on nodes of its pool."""
    pool = recipe.pools[stage.pool]
    described = driver_arguments(pool, settings.pods, settings.image(pool))
    return _container(stage, settings.images["cpu"], "remote", [*described], wired)


def _container(stage: Stage, image: str, module: str, more: list[Argument], wired: list[str]) -> Container:
    component = stage.component
    outputs = {identifier(port): info.type for port, info in component.outputs.items()}
    arguments: list[Argument] = ["--store", value_of("store"), "--run", value_of("run_id")]
    arguments += ["--stage", value_of("stage"), *more, "--executor-input", EXECUTOR_INPUT]
    for port in component.outputs:
        arguments += ["--pointer", port, path_of(identifier(port))]
    types: dict[str, ArtifactType] = {}
    for port, info in component.inputs.items():
        types |= {name: info.type for name in wired if identifier(port) in (name, numbered_port(name))}
    return Container(
        task_name(stage.name),
        image,
        ["python", "-m", f"{MODULES}.{module}"],
        arguments,
        {"run_id": _TEXT, "store": _TEXT, "stage": _TEXT},
        inputs=types,
        outputs=outputs,
        env=container_environment(),
    )
