"""The steps of a deployment, in order: what each would do, that it is done once, and what is left after a failure."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from components.contract.errors import InputError
from components.contract.terminal import visible_line
from infra.deploy.site import Change, Site
from infra.deploy.steps.charts import Chart
from infra.deploy.steps.cloud import Cloud, Context
from infra.deploy.steps.images import Images
from infra.deploy.steps.logins import Logins
from infra.deploy.steps.manifests import Manifests
from infra.deploy.steps.ready import wait_for_workloads
from infra.deploy.tools import StepFailed

JOURNAL = "journal.jsonl"
Say = Callable[[str], None]


class Step(Protocol):
    """One thing that is put in, and taken out again."""

    name: str

    def plan(self) -> Change: ...
    def apply(self) -> None: ...
    def wait(self) -> None: ...
    def removal(self) -> Change: ...
    def remove(self) -> None: ...


class Ready:
    """Last step: everything of ours is up."""

    name = "ready"

    def __init__(self, site: Site) -> None:
        self.site = site

    def plan(self) -> Change:
        """Nothing of its own."""
        return Change()

    def apply(self) -> None:
        """Nothing."""

    def wait(self) -> None:
        """Wait for MLflow, lineage and what else runs in our namespace."""
        wait_for_workloads(self.site, "posttrain")

    def removal(self) -> Change:
        """Nothing."""
        return Change()

    def remove(self) -> None:
        """Nothing."""


class Stopped(StepFailed):
    """A step failed; the message says what was done and how to go on."""


def all_steps(site: Site) -> list[Step]:
    """Return all steps that are wanted, in order; raise InputError for a name in SKIP or ONLY that no step has."""
    first: list[Step] = [Cloud(site), Context(site)] if site.settings.is_cloud else []
    first.append(Images(site))
    parts: list[Step] = [Chart(site, one) if one.kind == "chart" else Manifests(site, one) for one in site.addons]
    place = next(index for index, one in enumerate(parts) if one.name == "posttrain") + 1
    steps = [*first, *parts[:place], Logins(site), *parts[place:], Ready(site)]
    names = [step.name for step in steps]
    if unknown := sorted((site.settings.skip | site.settings.only) - set(names)):
        raise InputError(f"{', '.join(unknown)}: no such step (known: {', '.join(names)})")
    return [step for step in steps if site.settings.wants(step.name)]


def planned(steps: list[Step], say: Say) -> bool:
    """Show what each step would change; return whether there is anything."""
    found = False
    for step in steps:
        try:
            change = step.plan()
        except StepFailed as error:
            if not found:
                raise _unplanned(step, error) from None
            change = Change([f"? known once the steps before it are done ({error})"])
        found |= bool(change)
        say(f"{step.name}: {'unchanged' if not change else ''}".rstrip())
        for line in change.lines:
            say(f"    {visible_line(line)}")
    return found


def deploy(site: Site, steps: list[Step], say: Say) -> None:
    """Take the steps in order; those whose plan is empty by now are left. Raises Stopped at the first that fails."""
    done: list[str] = []
    for step in steps:
        try:
            changed = bool(step.plan())
            if changed:
                step.apply()
            step.wait()
        except StepFailed as error:
            raise _stopped(site, step, error, "done", done) from None
        done.append(step.name)
        _note(site, step.name, "applied" if changed else "unchanged")
        say(f"{step.name}: {'done' if changed else 'unchanged'}")


def removals(steps: list[Step], say: Say) -> list[Step]:
    """Show what would be removed, last step first; return the steps that have something to remove."""
    found = []
    for step in reversed(steps):
        try:
            change = step.removal()
        except StepFailed as error:
            raise _unplanned(step, error) from None
        if change:
            found.append(step)
            say(f"{step.name}:")
            for line in change.lines:
                say(f"    {visible_line(line)}")
    return found


def destroy(site: Site, steps: list[Step], say: Say) -> None:
    """Remove what the steps made, in the order given. Raises Stopped at the first that fails."""
    done: list[str] = []
    for step in steps:
        try:
            step.remove()
        except StepFailed as error:
            raise _stopped(site, step, error, "removed", done) from None
        done.append(step.name)
        _note(site, step.name, "removed")
        say(f"{step.name}: removed")


def _unplanned(step: Step, error: StepFailed) -> Stopped:
    return Stopped(f"step {step.name}: {error}. Nothing was changed. SKIP={step.name} leaves it out.")


def _stopped(site: Site, step: Step, error: StepFailed, what: str, so_far: list[str]) -> Stopped:
    """Return how to go on after a step that failed, and note the failure; `what` was done with the steps before it."""
    _note(site, step.name, "failed", str(error))
    before = f"{what.capitalize()} so far: {', '.join(so_far)}" if so_far else f"Nothing was {what} before it"
    again = f"The same command goes on here, SKIP={step.name} leaves it out"
    return Stopped(f"step {step.name}: {error}. {before}. {again}.")


def _note(site: Site, step: str, what: str, why: str = "") -> None:
    """Add a line to the journal: what was done when."""
    path: Path = site.settings.folder / JOURNAL
    path.parent.mkdir(parents=True, exist_ok=True)
    entry = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "step": step, "what": what}
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({**entry, **({"why": why} if why else {})}) + "\n")
