"""terraform and kubectl themselves, as far as they need no cloud: plan, apply, outputs, what a destroy leaves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.deploy import kept
from infra.deploy.settings import Settings
from infra.deploy.site import Site
from infra.deploy.steps.cloud import Cloud, Context
from infra.deploy.tools import StepFailed, Tools

pytestmark = pytest.mark.infra
CODE = """
variable "keep_data" {
  type    = bool
  default = true
}
variable "size" { default = 1 }
resource "terraform_data" "bucket" {
  input = { keep = var.keep_data }
}
resource "terraform_data" "cluster" {
  for_each = toset(["a", "b"])
  input    = { of = terraform_data.bucket.id, size = var.size }
}
output "cluster" { value = "posttrain" }
output "token" {
  value     = "secret"
  sensitive = true
}
"""


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """A folder of terraform with data and a cluster that hangs on it."""
    folder = tmp_path / "terraform"
    folder.mkdir()
    (folder / "main.tf").write_text(CODE)
    monkeypatch.setattr(Site, "terraform_folder", property(lambda _: folder))
    monkeypatch.setitem(kept.KEPT, "aws", ("terraform_data.bucket",))
    return Cloud(Site(Settings(cloud="aws", context="team/one", root=tmp_path / "deploy"), Tools()))


def test_a_plan_is_applied_as_it_was_shown_and_then_there_is_none(cloud: Cloud) -> None:
    shown = cloud.plan().lines
    assert shown == ["+ terraform_data.bucket", '+ terraform_data.cluster["a"]', '+ terraform_data.cluster["b"]']
    cloud.apply()
    assert cloud.site.outputs == {"cluster": "posttrain"}, "what is sensitive is not kept"
    assert not cloud.plan()
    (cloud.site.settings.folder / "more.tfvars").write_text("size = 2\n")
    object.__setattr__(cloud.site.settings, "tfvars", str(cloud.site.settings.folder / "more.tfvars"))
    assert not cloud.plan(), "asked once, so that what is applied is what was shown"
    assert Cloud(cloud.site).plan().lines == ['~ terraform_data.cluster["a"]', '~ terraform_data.cluster["b"]']


def test_a_destroy_leaves_the_data_and_a_second_one_too(cloud: Cloud) -> None:
    cloud.plan()
    cloud.apply()
    assert cloud.removal().lines == ['- terraform_data.cluster["a"]', '- terraform_data.cluster["b"]']
    cloud.remove()
    assert not cloud.removal()
    cloud.remove()
    assert cloud.site.terraform("state", "list").stdout.split() == ["terraform_data.bucket"]
    assert cloud.plan().lines == ['+ terraform_data.cluster["a"]', '+ terraform_data.cluster["b"]']
    object.__setattr__(cloud.site.settings, "destroy_data", True)
    assert cloud.removal().lines == ["- terraform_data.bucket"]
    cloud.remove()
    assert cloud.site.terraform("state", "list").stdout.split() == []
    assert not cloud.removal()


def test_terraform_s_complaint_is_one_line(cloud: Cloud) -> None:
    (cloud.site.terraform_folder / "wrong.tf").write_text('output "x" { value = var.absent }\n')
    with pytest.raises(StepFailed) as caught:
        cloud.plan()
    assert "Reference to undeclared input variable" in str(caught.value)
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)


def test_kubectl_s_entries_are_found_and_removed_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "config"
    tools = Tools({**os.environ, "KUBECONFIG": str(path)})
    for name in ("team", "other"):
        tools.run("kubectl", "config", "set-context", name, "--cluster", name)
    site = Site(Settings(cloud="aws", context="team", root=tmp_path / "deploy"), tools)
    assert not Context(site).plan()
    assert Context(site).removal().lines == ["- context team"]
    assert not site.cluster_is_there, "terraform has made nothing yet"
    Context(site).remove()
    assert Context(site).plan().lines == ["+ context team"]
    assert tools.said("kubectl", "config", "get-contexts", "-o", "name").split() == ["other"]
    absent = Site(Settings(cloud="local", context="team", root=tmp_path / "deploy"), tools)
    assert not absent.cluster_is_there


def test_a_cluster_that_does_not_answer_is_told(tmp_path: Path) -> None:
    tools = Tools({**os.environ, "KUBECONFIG": str(tmp_path / "config")})
    tools.run("kubectl", "config", "set-cluster", "x", "--server", "https://127.0.0.1:9")
    tools.run("kubectl", "config", "set-context", "x", "--cluster", "x")
    site = Site(Settings(cloud="local", context="x", root=tmp_path / "deploy"), tools)
    with pytest.raises(StepFailed, match=r"the cluster of the context x does not answer.*\(kubectl version: "):
        assert site.cluster_is_there


@pytest.mark.parametrize(
    "cloud, outputs, entry",
    [
        ("aws", {"cluster": "pt", "region": "us-east-2"}, "arn:aws:eks:us-east-2:123456789012:cluster/pt"),
        ("gcp", {"cluster": "pt", "project": "team-1", "location": "europe-west4-b"}, "gke_team-1_europe-west4-b_pt"),
    ],
)
def test_kubectl_s_entry_is_compared_with_the_cluster_of_terraform(
    tmp_path: Path, cloud: str, outputs: dict[str, str], entry: str
) -> None:
    tools = Tools({**os.environ, "KUBECONFIG": str(tmp_path / "config")})
    site = Site(Settings(cloud=cloud, context="team/a.b", root=tmp_path / "deploy"), tools)
    site.keep("outputs.json", outputs)
    for other in ("kind-mine", entry.replace("pt", "other"), entry.replace("europe", "asia").replace("us-east", "x")):
        tools.run("kubectl", "config", "set-context", "team/a.b", "--cluster", other)
        with pytest.raises(StepFailed, match=f"is of another cluster \\({other}\\)"):
            Context(site).plan()
    tools.run("kubectl", "config", "set-context", "team/a.b", "--cluster", entry)
    assert not Context(site).plan()
