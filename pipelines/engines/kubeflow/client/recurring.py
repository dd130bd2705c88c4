"""A recipe's schedule as a recurring run of Kubeflow: created, replaced by name, switched off, deleted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime

from components.contract.errors import InputError
from components.runtime.store import Store
from pipelines.engines.engine import KeptSchedule
from pipelines.engines.kubeflow.client.api import Client, RecurringRun
from pipelines.engines.kubeflow.client.submit import request
from pipelines.engines.kubeflow.compiler.compiler import compile_recipe
from pipelines.engines.kubeflow.compiler.settings import Settings
from pipelines.engines.kubeflow.names import SCHEDULED_TIME, TRIGGER
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.schedule.cron import UTC_NAME, Cron
from pipelines.recipe.schedule.section import Schedule

TIMEZONE = "POSTTRAIN_KUBEFLOW_TIMEZONE"
"""The time zone that Kubeflow reads cron expressions in, its CRON_SCHEDULE_TIMEZONE; UTC unless set."""


def keep(recipe: Recipe, store: Store, client: Client, settings: Settings) -> KeptSchedule:
    """Create the recurring run of a recipe, and delete earlier ones of its name.

    The new one comes first: a command that is cut off leaves two for a while, never none, and the next call leaves one.
    Raises InputError for a schedule that Kubeflow cannot keep.
    """
    cron = kubeflow_cron(recipe.schedule)
    drawn, arguments = request(recipe, store)
    if drawn.schedule and drawn.schedule.cron:
        arguments[TRIGGER] = SCHEDULED_TIME
    assert recipe.schedule is not None and recipe.schedule.cron is not None
    before = client.recurring_runs(recipe.name)
    made = client.schedule(
        compile_recipe(drawn, settings, store=store.uri),
        arguments,
        name=recipe.name,
        cron=cron,
        words=f"cron {recipe.schedule.cron.words}, store {store.uri}",
    )
    for old in before:
        if old.id != made.id:
            client.delete_recurring_run(old.id)
    return _kept(made, client, recipe.schedule.cron)


def end(recipe: Recipe, client: Client, *, delete: bool) -> KeptSchedule:
    """Switch a recipe's recurring run off, or delete it; raise InputError if there is none."""
    found = client.recurring_runs(recipe.name)
    if not found:
        raise InputError(f"Kubeflow at {client.account.url} has no schedule of recipe {recipe.name!r}")
    for one in found:
        if delete:
            client.delete_recurring_run(one.id)
        else:
            client.disable_recurring_run(one.id)
    return KeptSchedule(name=recipe.name, on=False, when=found[0].words, page=client.recurring_page(found[0].id))


def listed(client: Client) -> list[KeptSchedule]:
    """Return the schedules that Kubeflow keeps for recipes."""
    return [_kept(one, client) for one in client.recurring_runs()]


def kubeflow_cron(schedule: Schedule | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the times of a schedule as Kubeflow takes them: six fields, the first of them seconds.

    Raises InputError for a schedule without times, and for a time zone that is not Kubeflow's.
    """
    if schedule is None or schedule.cron is None:
        raise InputError("the recipe has no 'schedule: {cron: ...}', and Kubeflow starts runs by time alone")
    zone = environ.get(TIMEZONE) or UTC_NAME
    if schedule.cron.timezone != zone:
        raise InputError(
            f"schedule.timezone: Kubeflow reads all cron expressions in one time zone, {zone}, and not in "
            f"{schedule.cron.timezone}: write the times in {zone}, or set CRON_SCHEDULE_TIMEZONE in Kubeflow and "
            f"{TIMEZONE} here"
        )
    return " ".join(["0", *schedule.cron.fields])


def _kept(one: RecurringRun, client: Client, cron: Cron | None = None) -> KeptSchedule:
    following = cron.after(datetime.now(UTC)).isoformat(timespec="minutes") if cron and one.on else None
    return KeptSchedule(name=one.name, on=one.on, when=one.words, next=following, page=client.recurring_page(one.id))
