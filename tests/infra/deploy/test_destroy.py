"""make destroy: in reverse, not under runs at work, and not what holds data unless that was asked for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra.deploy.kept import KEPT, kept_addresses
from infra.deploy.settings import Settings
from tests.infra.conftest import INFRA
from tests.infra.deploy.conftest import PINNED, Run
from tests.infra.deploy.world import World

pytestmark = pytest.mark.infra
DATA = {"aws_s3_bucket.store", "aws_kms_key.store", 'aws_db_instance.this["mlflow"]', "aws_vpc.this",
        'aws_subnet.private["a"]', "aws_budgets_budget.month"}  # fmt: skip


@pytest.fixture
def deployed(run: Run, world: World, capsys: pytest.CaptureFixture[str]) -> World:
    """A cluster with everything in it."""
    assert run("deploy") == 0
    world.calls.clear()
    capsys.readouterr()
    return world


def test_it_goes_in_reverse_and_keeps_the_data(run: Run, deployed: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("steps") == 0
    order = capsys.readouterr().out.split()
    assert run("destroy") == 0
    removed = re.findall(r"^(\S+): removed$", capsys.readouterr().out, re.MULTILINE)
    assert removed == [step for step in reversed(order) if step in removed]
    assert removed[0] == "airflow" and removed[-1] == "cloud"
    assert len(removed) >= 18
    assert (deployed.releases, deployed.contexts) == ({}, [])
    assert set(deployed.state) == DATA
    assert not deployed.objects


def test_what_stays_and_costs_money_is_told(run: Run, deployed: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("destroy", PLAN="1") == 0
    shown = capsys.readouterr().out
    assert deployed.changes() == []
    assert "- aws_eks_cluster.this" in shown and "- aws_s3_bucket.store" not in shown
    assert "stays: 6 resources with your data; DATA=destroy" in shown
    assert "aws_s3_bucket.store: the bucket: per GB" in shown


def test_data_goes_when_asked(run: Run, deployed: World) -> None:
    assert run("destroy", DATA="destroy") == 0
    assert deployed.state == []
    (off,) = [call for call in deployed.calls if call[2:3] == ["apply"] and "keep_data=false" in call]
    assert {word for word in off if word.startswith("-target=")} == {f"-target={one}" for one in DATA}, (
        "its protection is taken off first, and nothing is made again"
    )


def test_it_is_refused_while_runs_are_at_work(run: Run, deployed: World, capsys: pytest.CaptureFixture[str]) -> None:
    labels = {"posttrain.dev/run": "quickstart-1\x1b[2J"}
    pod = {"kind": "Pod", "metadata": {"name": "x", "namespace": "posttrain", "labels": labels}}
    deployed.objects["Pod/posttrain/x"] = {**pod, "status": {"phase": "Running"}}
    assert run("destroy", DATA="destroy") == 1
    told = capsys.readouterr().err
    assert "quickstart-1" in told and "\x1b" not in told
    assert deployed.changes() == []
    deployed.objects["Pod/posttrain/x"]["status"]["phase"] = "Succeeded"
    assert run("destroy") == 0


@pytest.mark.parametrize("word", ["kueue", "kubeflow", "cloud"])
def test_after_a_failure_the_same_command_goes_on(
    run: Run, deployed: World, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(words: list[str]) -> bool:
        if word == "cloud":
            return words[2:3] == ["apply"]
        return (
            "uninstall" in words and word in words if word == "kueue" else "delete" in words and words[0] == "kubectl"
        )

    deployed.fails = fails
    assert run("destroy") == 1
    told = capsys.readouterr().err.strip()
    assert told.count("\n") == 0
    assert "The same command goes on here" in told
    deployed.fails = lambda _: False
    assert run("destroy") == 0
    assert set(deployed.state) == DATA
    capsys.readouterr()
    assert run("destroy") == 0
    assert set(deployed.state) == DATA, "without a target, terraform would destroy all of it"
    assert "nothing to remove" in capsys.readouterr().out


def test_a_cluster_that_was_there_stays(run: Run, world: World) -> None:
    world.contexts = ["pt"]
    local = {"CLOUD": "local", "POSTTRAIN_IMAGE_CPU": PINNED.format("cpu"), "ENGINES": "kubeflow"}
    assert run("deploy", **local) == 0
    assert run("destroy", **local) == 0
    assert world.contexts == ["pt"]
    assert not [call for call in world.calls if call[0] == "terraform"]


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_nothing_that_stays_hangs_on_something_that_goes(cloud: str) -> None:
    """Terraform destroys what depends on a target, too: whatever a kept resource names has to be kept."""
    text = "\n".join(path.read_text() for path in sorted((INFRA / "terraform" / cloud).glob("*.tf")))
    blocks = re.findall(r'^resource "(\w+)" "(\w+)" \{\n(.*?)^\}', text, re.MULTILINE | re.DOTALL)
    addresses = {f"{kind}.{name}": body for kind, name, body in blocks}
    kept = kept_addresses(cloud, list(addresses))
    assert len(kept) >= 8 and len(addresses) - len(kept) >= 10
    for one in sorted(kept):
        named = {other for other in addresses if re.search(rf"(?<![\w.]){re.escape(other)}\b", addresses[one])}
        assert named <= kept, one
    assert all(any(one.startswith(start) for one in addresses) for start in KEPT[cloud])


@pytest.mark.parametrize("verb", ["destroy", "deploy"])
@pytest.mark.parametrize("skip", ["", "context"])
def test_a_context_of_another_cluster_is_left_alone(
    run: Run, deployed: World, capsys: pytest.CaptureFixture[str], verb: str, skip: str
) -> None:
    """Someone has given the name to their own cluster since."""
    before = dict(deployed.objects)
    deployed.foreign = "kind-production\x1b[2J"
    assert run(verb, SKIP=skip) != 0
    said = capsys.readouterr().err
    assert "context pt is of another cluster (kind-production\\x1b[2J) than terraform's posttrain" in said
    assert deployed.changes() == [] and deployed.objects == before


def test_two_contexts_never_share_a_workspace_or_a_folder() -> None:
    names = ["team.a", "team/a", "team:a", "team-a", "team@a", "a" * 200, "a" * 201]
    found = [Settings("aws", name).name for name in names]
    assert len(set(found)) == len(names) and found[3] == "team-a"
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,90}", one) for one in found)


def test_a_plan_is_for_its_owner_only(run: Run, deployed: World, tmp_path: Path) -> None:
    assert run("destroy", PLAN="1") == 0
    assert (tmp_path / "deploy" / "pt").stat().st_mode & 0o77 == 0


def test_a_key_without_which_kept_data_cannot_be_read_is_told(
    run: Run, deployed: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("destroy", PLAN="1") == 0
    assert "- Secret airflow/airflow-fernet-key: save it, or what is encrypted" in capsys.readouterr().out
    assert run("destroy", PLAN="1", DATA="destroy") == 0
    assert "- Secret airflow/airflow-fernet-key\n" in capsys.readouterr().out
