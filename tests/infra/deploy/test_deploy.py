"""make deploy: a plan, then steps in order; a second one changes nothing; one that failed goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from infra.deploy.addons import read_addons
from infra.deploy.words import PLACEHOLDERS, texts
from tests.infra.deploy.conftest import AWS, GCP, PINNED, Run
from tests.infra.deploy.world import DIGEST, World

pytestmark = pytest.mark.infra
LOCAL = {
    "CLOUD": "local",
    "POSTTRAIN_IMAGE_CPU": PINNED.format("cpu"),
    "POSTTRAIN_IMAGE_AIRFLOW": PINNED.format("airflow"),
}


def test_an_empty_account_becomes_a_cluster_with_everything_in_it(run: Run, world: World) -> None:
    assert run("deploy") == 0
    charts = {one.name: f"{one.chart}-{one.version}" for one in read_addons() if one.kind == "chart"}
    assert {name: one["chart"] for name, one in world.releases.items()} == charts
    assert world.contexts == ["pt"]
    accounts = {name: one for name, one in world.objects.items() if one["kind"] == "ServiceAccount"}
    role = accounts["ServiceAccount/posttrain/stage"]["metadata"]["annotations"]["eks.amazonaws.com/role-arn"]
    assert role == AWS["roles"]["stage"]  # type: ignore[index]
    config = world.objects["ConfigMap/posttrain/posttrain"]["data"]
    assert (config["POSTTRAIN_STORE"], config["AWS_REGION"]) == ("s3://our-bucket/store", "eu-central-1")
    assert config == world.objects["ConfigMap/airflow/posttrain"]["data"]
    (container,) = world.objects["Deployment/posttrain/lineage"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"123456789012.dkr.ecr.eu-central-1.amazonaws.com/posttrain-cpu@{DIGEST}"
    assert "10.99.0.0/16" in json.dumps(world.objects["NetworkPolicy/posttrain/mlflow-to-aws"])


def test_nothing_is_left_to_fill_in(run: Run, world: World, tmp_path: Path) -> None:
    assert run("deploy") == 0
    values = [yaml.safe_load(path.read_text()) for path in (tmp_path / "deploy" / "pt" / "values").iterdir()]
    for text in texts([*world.objects.values(), *values]):
        assert "0" * 64 not in text
        assert not set(text.replace("/", " ").replace(":", " ").replace(".", " ").split()) & set(PLACEHOLDERS), text


def test_a_second_deploy_changes_nothing(run: Run, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("deploy") == 0
    secrets = [one for one in world.objects.values() if one["kind"] == "Secret"]
    world.calls.clear()
    capsys.readouterr()
    assert run("deploy") == 0
    assert world.changes() == []
    assert "nothing to change" in capsys.readouterr().out
    assert [one for one in world.objects.values() if one["kind"] == "Secret"] == secrets


def test_another_machine_goes_on_with_the_same_state(run: Run, world: World, tmp_path: Path) -> None:
    images = {f"POSTTRAIN_IMAGE_{kind.upper()}": PINNED.format(kind) for kind in ("cpu", "gpu", "airflow")}
    assert run("deploy", **images) == 0
    world.calls.clear()
    world.contexts.clear()
    assert run("deploy", DEPLOY_FOLDER=str(tmp_path / "elsewhere"), **images) == 0
    assert [call[:3] for call in world.changes()] == [["aws", "eks", "update-kubeconfig"]]


def test_the_plan_comes_first_and_a_no_changes_nothing(
    run: Run, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("deploy", YES="") == 1  # nobody is there to be asked
    assert world.changes() == []
    shown = capsys.readouterr().out
    assert "+ aws_eks_cluster.this" in shown
    assert "+ kueue 0.19.2" in shown
    assert run("deploy", PLAN="1") == 0
    assert world.changes() == []


def test_an_upgrade_tells_the_version_now_and_after(run: Run, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("deploy") == 0
    world.releases["kueue"]["chart"] = "kueue-0.18.0"
    world.releases["airflow"]["values"]["executor"] = "CeleryExecutor"
    capsys.readouterr()
    assert run("deploy", PLAN="1") == 0
    shown = capsys.readouterr().out
    assert "~ kueue 0.18.0 (deployed) -> 0.19.2" in shown
    assert "~ values of airflow 1.22.0" in shown
    assert "jobset: unchanged" in shown
    world.calls.clear()
    assert run("deploy") == 0
    assert {call[call.index("--install") + 1] for call in world.changes()} == {"kueue", "airflow"}


EVERY = ["cloud", "context", "images", "logins", *(one.name for one in read_addons() if "aws" in one.clouds)]


@pytest.mark.parametrize("step", EVERY)
def test_after_a_failure_in_any_step_the_same_command_goes_on(
    run: Run, world: World, step: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    seen: list[int] = []

    def first_change_of_the_step(words: list[str]) -> bool:
        """The step is known by the journal: all before it have a line."""
        if not set(words) & {"apply", "upgrade", "create", "push", "update-kubeconfig"}:
            return False
        path = tmp_path / "deploy" / "pt" / "journal.jsonl"
        done = [json.loads(line)["step"] for line in path.read_text().splitlines()] if path.exists() else []
        order = _order(run, capsys)
        fails = len(done) == order.index(step)
        seen.append(1) if fails else None
        return fails

    world.fails = first_change_of_the_step
    assert run("deploy") == 1
    told = capsys.readouterr().err.strip()
    assert seen
    assert told.count("\n") == 0
    assert f"step {step}: " in told and "no capacity" in told and "\x1b" not in told
    assert f"SKIP={step}" in told
    assert "nothing was done before it" in told.lower() if step == "cloud" else "Done so far: cloud" in told
    world.fails = lambda _: False
    world.calls.clear()
    assert run("deploy") == 0
    assert set(world.releases) == {one.name for one in read_addons() if one.kind == "chart"}
    world.calls.clear()
    assert run("deploy") == 0
    assert world.changes() == []


def _order(run: Run, capsys: pytest.CaptureFixture[str]) -> list[str]:
    kept = capsys.readouterr()
    assert run("steps") == 0
    names = capsys.readouterr().out.split()
    print(kept.out, end="")
    return names


@pytest.mark.parametrize("status", ["pending-install", "pending-upgrade", "failed"])
def test_a_chart_that_was_killed_half_way_is_installed_again(run: Run, world: World, status: str) -> None:
    assert run("deploy", ENGINES="kubeflow") == 0
    world.releases["kueue"]["status"] = status
    assert run("deploy", ENGINES="kubeflow") == 0
    assert "status" not in world.releases["kueue"]


def test_google_cloud_gets_the_same_with_its_own_accounts_and_keys(run: Run, world: World, tmp_path: Path) -> None:
    world.outputs = GCP
    assert run("deploy", CLOUD="gcp") == 0
    assert world.contexts == ["pt"]
    assert not {"nvidia-device-plugin", "cluster-autoscaler", "metrics-server"} & world.releases.keys()
    account = world.objects["ServiceAccount/posttrain/stage"]["metadata"]["annotations"]
    assert account == {"iam.gke.io/gcp-service-account": "pt-stage@team-1.iam.gserviceaccount.com"}
    config = world.objects["ConfigMap/posttrain/posttrain"]["data"]
    assert config["AWS_ENDPOINT_URL"] == "https://storage.googleapis.com"
    (container,) = world.objects["Deployment/posttrain/lineage"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"europe-west4-docker.pkg.dev/team-1/pt/posttrain-cpu@{DIGEST}"
    assert world.objects["Secret/posttrain/mlflow-bucket"]["stringData"]["AWS_ACCESS_KEY_ID"] == "GOOGKEY"
    assert world.objects["Secret/posttrain/mlflow-database"]["stringData"]["uri"].endswith("@10.99.0.3/mlflow")
    values = world.releases["airflow"]["values"]
    assert values["images"]["airflow"]["repository"] == "europe-west4-docker.pkg.dev/team-1/pt/posttrain-airflow"
    assert "10.99.0.0/16" in json.dumps(world.objects["NetworkPolicy/posttrain/mlflow-to-google"])
    variables = (tmp_path / "deploy" / "pt" / "posttrain.env").read_text()
    assert "export AWS_ENDPOINT_URL=https://storage.googleapis.com" in variables and "object-store" not in variables
    told = "\n".join(" ".join(call) for call in world.calls)
    passwords = {json.loads(text)["--password"] for text in world.given if "--password" in text}
    assert len(passwords) == 2 and not any(one in told for one in passwords)
    world.calls.clear()
    assert run("deploy", CLOUD="gcp") == 0
    assert world.changes() == []


def test_steps_are_left_out_and_taken_alone(run: Run, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("deploy", SKIP="kueue queues", ENGINES="kubeflow") == 0
    assert not {"kueue", "airflow"} & world.releases.keys()
    assert not [name for name in world.objects if name.startswith("Secret/airflow/")]
    assert run("deploy", ONLY="kueue", ENGINES="kubeflow") == 0
    assert "kueue" in world.releases
    assert run("deploy", SKIP="kuewe") == 2
    assert "kuewe: no such step" in capsys.readouterr().err


def test_a_cluster_that_is_there_gets_the_same(run: Run, world: World, tmp_path: Path) -> None:
    world.contexts = ["pt"]
    assert run("deploy", **LOCAL) == 0
    assert not [call for call in world.calls if call[0] in ("terraform", "aws", "podman")]
    postgres = world.objects["Secret/posttrain/postgres"]["stringData"]
    uri = world.objects["Secret/posttrain/mlflow-database"]["stringData"]["uri"]
    assert uri == f"postgresql+psycopg2://mlflow:{postgres['POSTGRES_PASSWORD']}@postgres/mlflow"
    stores = {world.objects[f"Secret/{space}/object-store"]["stringData"]["AWS_SECRET_ACCESS_KEY"]
              for space in ("posttrain", "kubeflow", "airflow")}  # fmt: skip
    assert len(stores) == 1
    assert world.releases["airflow"]["values"]["images"]["airflow"] == {
        "repository": "registry.example.com/posttrain-airflow", "digest": "sha256:" + "3" * 64
    }  # fmt: skip
    variables = (tmp_path / "deploy" / "pt" / "posttrain.env").read_text()
    assert "object-store:AWS_ACCESS_KEY_ID+AWS_SECRET_ACCESS_KEY" in variables
    assert "AWS_REGION+AWS_ENDPOINT_URL" in variables
    assert "export POSTTRAIN_STORE=s3://posttrain/store" in variables


def test_a_local_cluster_is_told_which_images_it_can_pull(
    run: Run, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.contexts = ["pt"]
    assert run("deploy", CLOUD="local") == 1
    assert "set POSTTRAIN_IMAGE_CPU and POSTTRAIN_IMAGE_AIRFLOW to name@sha256" in capsys.readouterr().err
    assert run("deploy", CLOUD="local", POSTTRAIN_IMAGE_CPU="posttrain-cpu:latest", ENGINES="kubeflow") == 1
    assert "expected name@sha256" in capsys.readouterr().err
    assert world.changes() == []


def test_no_password_is_an_argument_or_in_a_file(run: Run, world: World, tmp_path: Path) -> None:
    assert run("deploy") == 0
    secret = {text for one in world.objects.values() if one["kind"] == "Secret" for text in one["stringData"].values()}
    secret -= {"admin", "stage"}
    assert len(secret) >= 7
    assert "postgresql+psycopg2://owner:p%40ss%2Fword@mlflow.rds.example.com/mlflow" in secret
    told = "\n".join(" ".join(call) for call in world.calls)
    files = "\n".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
    for text in (*secret, "p@ss/word"):
        assert text not in told
        assert text not in files


def test_a_chart_that_is_not_the_pinned_one_is_not_installed(
    run: Run, world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from infra.deploy import site

    monkeypatch.setattr(site, "read_addons", read_addons)  # with the sums of the true archives
    assert run("deploy") == 1
    assert "is not the chart that was pinned" in capsys.readouterr().err
    assert "nvidia-device-plugin" not in world.releases
    assert not list((tmp_path / "deploy" / "pt" / "charts").iterdir())
