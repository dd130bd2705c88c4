"""The engine interface: an engine's capabilities, what it refuses in a plan, and how it runs one.

An outside package provides an engine by an entry point of group `posttrain.engines` that names an object of this class,
or a class of it: `toy = my_package:ToyEngine`. Importing it must be cheap; import heavy packages only when it runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from components.contract.errors import InputError

if TYPE_CHECKING:
    from components.runtime.store import Store
    from pipelines.plan.plan import Plan
    from pipelines.recipe.recipe import Recipe
    from pipelines.runs.runs import RunResult
    from pipelines.runs.view import RunView
    from pipelines.triggers.record import Trigger


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What an engine can do. A run that needs more is refused before anything runs."""

    approvals: bool = False
    """Waits for a person before a stage with `approve`."""
    retries: bool = False
    """Tries a failed stage again as its `retries` say."""
    going_on: bool = False
    """Goes on without a stage that has failed for good, as its `on_failure: skip` says."""
    timeouts: bool = False
    """Ends a stage that takes longer than its `timeout`."""
    several_nodes: bool = False
    """Runs one stage on all nodes of a pool that has several."""
    uploads: bool = False
    """Puts local data that a recipe names into the store: its stages do not see this machine's files."""
    folder_store: bool = False
    """Works on a store that is a folder of this machine; one that does not needs a bucket."""
    containers: bool = False
    """Runs jobs in containers of this machine (--containers)."""
    core_limit: bool = False
    """Bounds the cores that jobs take side by side (--jobs)."""
    pods: bool = False
    """Runs stages as pods on the nodes of their pools; one that does not takes pools as sizes alone."""
    schedules: bool = False
    """Starts runs at the times of `schedule: {cron}`."""
    data_triggers: bool = False
    """Starts runs when data of `schedule: {on}` change: S3 prefixes, paths, registered models."""
    asset_triggers: bool = False
    """Starts runs when an asset of `schedule: {on}` changes."""
    live_progress: bool = False
    """Shows the steps of a stage while it runs; one that does not shows when stages begin and end."""
    cancellation: bool = False
    """Ctrl-C ends the run; otherwise it only ends the watching, and the run continues."""

    def names(self) -> list[str]:
        """Return the names of what it can do, in words."""
        return [name.replace("_", " ") for name, able in vars(self).items() if able]


@dataclass(frozen=True, kw_only=True)
class KeptSchedule:
    """A schedule that an engine keeps."""

    name: str
    """The recipe's name."""
    on: bool
    """Whether it starts runs."""
    when: str
    """What starts a run, in words."""
    next: str | None = None
    """When the next run starts, if that is known."""
    page: str = ""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of a run, beside its recipe."""

    new: bool = False
    """Start a new run even if an unfinished one could resume."""
    jobs: int | None = None
    """Cores for concurrent jobs; all of the machine's if None."""
    containers: bool = False
    """Run each job in a container of this machine."""
    trigger: Trigger | None = None
    """What started the run, if not a person."""


class Engine(ABC):
    """Orders, retries and displays the jobs of a plan. No data flows through it: jobs use the store."""

    name: ClassVar[str]
    """Value of `posttrain run --engine`."""
    summary: ClassVar[str]
    """One line: where the jobs run."""
    capabilities: ClassVar[Capabilities]
    decides: ClassVar[str] = "it orders jobs in its own way"
    """What decides how many jobs run at once, and in what; used when --containers or --jobs is refused."""

    def check_machine(self) -> None:  # noqa: B027 - most engines need nothing from the machine
        """Raise InputError, with a remedy, if this machine or environment lacks what the engine needs."""

    def check_ready(self, recipe: Recipe, store: Store) -> None:  # noqa: B027 - most engines need nothing beforehand
        """Raise InputError or PosttrainError if a run of a recipe could not start there now, or nothing answers."""

    def refusals(self, plan: Plan) -> Iterator[str]:
        """Yield what else in a plan the engine cannot do, one line each, completing "engine NAME cannot ..."."""
        yield from ()

    @abstractmethod
    def run(self, plan: Plan, store: Store, view: RunView, options: RunOptions) -> RunResult:
        """Run a plan to its end, or follow it until it needs a person; return how it ended.

        Raises InputError for a refused plan, and PosttrainError if the engine cannot be reached.
        """

    def take_decision(self, store: Store, entry: Mapping[str, Any], stage: str, *, approved: bool) -> str | None:
        """Handle a person's decision on a stage of a run, which the store already holds.

        `entry` is the ledger's record of the run's beginning. Returns where the run continues by itself ("at
        https://..."), "" if that needs no words, and None if a person must start it again.
        """
        return None

    def keep_schedule(self, recipe: Recipe, store: Store) -> KeptSchedule:
        """Make the engine start runs of a recipe by the recipe's schedule, in place of an earlier one of its name.

        Raises InputError for an engine that keeps no schedules.
        """
        raise self._keeps_none()

    def end_schedule(self, recipe: Recipe, store: Store, *, delete: bool) -> KeptSchedule:
        """Stop starting runs of a recipe; with `delete`, forget the schedule. Raises InputError if there is none."""
        raise self._keeps_none()

    def kept_schedules(self, store: Store) -> list[KeptSchedule]:
        """Return the schedules that the engine keeps."""
        raise self._keeps_none()

    def _keeps_none(self) -> InputError:
        return InputError(
            f"engine {self.name} keeps no schedules: posttrain run RECIPE --watch waits in the foreground"
        )
