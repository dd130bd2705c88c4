"""A stage with `approve` asks a person, cached or not: `posttrain run` waits, and no alias moves before the answer."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.contract.job import Approval, Job
from components.runtime.job.asking import Question
from components.runtime.job.launch import Launch
from components.runtime.job.progress import text_lines
from components.runtime.ledger.records import approval_key, run_key, utc
from components.runtime.lineage.delivery.mlflow_entities import finish_tags
from components.runtime.lineage.events import StageFinished
from components.runtime.lineage.registry import find_version
from components.runtime.store import Store, open_store
from pipelines.engines.shared.approvals import Decision, decide, record_decision
from tests.support.championship import Championship
from tests.support.toy_command import RECIPE, Command, toy_command

CHAMPION = "tests/pipelines/recipes/toy-champion.yaml"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


@pytest.fixture
def posttrain(tmp_path: Path) -> Command:
    return toy_command(tmp_path / "store")


def champion(store: Store) -> dict[str, Any] | None:
    return find_version(store, "crowned@champion")


def shown(posttrain: Command) -> dict[str, Any]:
    stage: dict[str, Any] = json.loads(posttrain("show", "latest", "--json").stdout)["stages"][-1]
    return stage


def test_a_cached_champion_waits_for_a_person(posttrain: Command, store: Store) -> None:
    assert posttrain("run", CHAMPION).returncode == 3, "candidate made the same adoption: champion is cached"
    plan = posttrain("plan", CHAMPION).stdout
    assert "cached, asks" in plan and "after approval: made by candidate" in plan
    assert (champion(store), posttrain("run", CHAMPION).returncode) == (None, 3)

    assert posttrain("approve", "latest", "champion").returncode == 0
    assert champion(store) is None, "the run moves the alias, when it goes on"
    assert posttrain("run", CHAMPION).returncode == 0
    first = champion(store)
    stage = shown(posttrain)
    assert first is not None and stage["cache"] == "hit"
    assert stage["outputs"]["model"]["digest"] == first["digest"]
    approval = stage["approval"]
    assert approval["inputs"] == {"model": [first["digest"]]}
    assert approval["seen"] == {"base": {"metrics": {"number": 4.0}}}
    assert (approval["approved"], approval["engine"]) == (True, "local")
    line = f"champion was approved by {approval['by']}, {approval['decided']}, on engine local; seen: base: number 4"
    assert line in posttrain("show", "latest").stdout.splitlines()
    report = json.loads(posttrain("report", "latest", "--json").stdout)
    assert f"approved by {approval['by']}" in Path(report["page"]).read_text()

    again = posttrain("run", CHAMPION)  # all of it is cached; an approval is of one run
    assert (again.returncode, shown(posttrain)["status"]) == (3, "waiting")


def test_a_rejected_champion_leaves_the_registry_as_it_was(posttrain: Command, store: Store) -> None:
    assert posttrain("run", CHAMPION).returncode == 3
    assert posttrain("approve", "latest", "champion").returncode == 0
    assert posttrain("run", CHAMPION).returncode == 0
    before = {key: store.get(key) for key in store.keys("models/")}
    other = ("run", CHAMPION, "--set", "factor=7")
    assert posttrain(*other).returncode == 3
    assert posttrain("approve", "latest", "champion", "--reject").returncode == 0
    assert posttrain(*other).returncode == 1
    assert before and {key: store.get(key) for key in store.keys("models/")} == before
    assert "champion was rejected by" in posttrain("show", "latest").stdout


def test_a_stage_that_is_skipped_asks_nobody(posttrain: Command, store: Store) -> None:
    done = posttrain("run", CHAMPION, "--set", "least=100")
    assert done.returncode == 0
    seconds = json.loads(posttrain("show", "latest", "--json").stdout)["seconds"]
    assert f"; wall time {seconds:.1f} s\n" in next(
        line + "\n" for line in done.stdout.splitlines() if "cost  " in line
    )
    assert (shown(posttrain)["status"], list(store.keys("approvals/")), champion(store)) == ("skipped", [], None)


def test_the_launcher_registers_nothing_that_nobody_approved(store: Store, tmp_path: Path) -> None:
    """Whatever an engine forgets to ask."""
    run = Championship.prepare(store, "crowning-1", "local", tmp_path)
    with pytest.raises(InputError, match="waits for an approval of its inputs"):
        Launch(run.job, text_lines(), store=store).run()
    assert run.champion is None
    question = Launch(run.job, text_lines(), store=store).question()
    assert decide(question, store, lambda job: True) is Decision.APPROVED
    entry = Launch(run.job, text_lines(), store=store).run()
    assert (entry["cache"], run.champion) == ("hit", run.digest)
    tags = finish_tags(StageFinished.model_validate({**entry, "time": entry["ended"]}))
    assert tags["posttrain.approved.by"] == getpass.getuser() and run.digest in tags["posttrain.approved.inputs"]
    assert tags["posttrain.approved.at"] == utc(entry["approval"]["time"])


def test_an_approval_is_of_the_inputs_that_were_seen(posttrain: Command, store: Store) -> None:
    """The candidate moves on between the answer and the run's going on."""
    recipe = Path(store.uri).parent / "watched.yaml"
    recipe.write_text(
        "name: watched\nstages:\n"
        "  taken: {uses: adopt, in: {model: 'models:/toy@candidate'}, approve: true, register: t}\n"
    )
    assert posttrain("run", RECIPE).returncode == 0
    assert posttrain("run", str(recipe)).returncode == 3
    run_id = next(key.split("/")[1] for key in store.keys("approvals/"))
    assert posttrain("approve", run_id, "taken").returncode == 0
    assert posttrain("run", RECIPE, "--set", "factor=5").returncode == 0
    changed = posttrain("run", str(recipe))
    assert changed.returncode == 3, changed.stdout + changed.stderr


def test_a_decision_on_other_inputs_does_not_stand(store: Store) -> None:
    job = Job(
        run_id="r-1", recipe="r", stage="s", component="adopt", params={}, inputs={}, seed=0, store=store.uri,
        approve=Approval(message="Go on?"),
    )  # fmt: skip
    one, other = Question(job, {"model": ["a" * 64]}), Question(job, {"model": ["b" * 64]})
    ask = lambda job: None  # noqa: E731
    assert decide(one, store, ask) is Decision.WAITING
    assert record_decision(store, "r-1", "s", approved=True, by="ann")
    assert not record_decision(store, "r-1", "s", approved=False, by="bob"), "the first answer stands"
    assert decide(one, store, ask) is Decision.APPROVED
    assert decide(other, store, ask) is Decision.WAITING
    assert record_decision(store, "r-1", "s", approved=False, by="bob")
    assert decide(other, store, ask) is Decision.REJECTED
    decision = store.get(approval_key("r-1", "s"))
    assert decision is not None and decision["inputs"] == other.inputs
    assert [(earlier["by"], earlier["inputs"]) for earlier in decision["earlier"]] == [("ann", one.inputs)]


def test_nobody_approves_what_was_not_asked(store: Store) -> None:
    store.put(run_key("r-1"), {"engine": "airflow"})
    with pytest.raises(InputError, match="has not asked yet"):
        record_decision(store, "r-1", "champion", approved=True, by="ann")
    assert record_decision(store, "r-1", "champion", approved=False, by="ann"), "a rejection needs no look at it"
