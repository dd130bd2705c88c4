"""addons.yaml: complete entries, files that are there, versions that agree; placeholders; programs of others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from components.contract.errors import InputError
from infra.deploy.addons import ADDONS, read_addons, wanted
from infra.deploy.settings import Settings
from infra.deploy.tools import StepFailed, Tools
from infra.deploy.words import check_filled, filled
from tests.infra.conftest import INFRA

pytestmark = pytest.mark.infra
OTHERS = [one for one in read_addons() if one.version]


def test_every_folder_and_file_is_there() -> None:
    for cloud in ("aws", "gcp", "local"):
        for one in wanted(Settings(cloud=cloud, context="x"), read_addons()):
            assert not one.is_ours or (Path(one.place(cloud)) / "kustomization.yaml").is_file()
            assert all(path.is_file() for path in one.value_files(cloud))


def test_every_kustomization_that_is_applied_is_listed() -> None:
    listed = {one.place(cloud) for one in read_addons() for cloud in ("aws", "gcp", "local") if one.is_ours}
    parts = [
        *INFRA.glob("kubernetes/overlays/*/*/kustomization.yaml"),
        *INFRA.glob("kubernetes/overlays/*/kustomization.yaml"),
    ]
    folders = {str(path.parent) for path in parts if path.parent.name != "settings"}
    assert folders <= listed
    values = {path for one in read_addons() for cloud in ("aws", "local", "gcp") for path in one.value_files(cloud)}
    assert set(INFRA.glob("kubernetes/**/*values*.yaml")) | set(INFRA.glob("kubernetes/values/*.yaml")) <= values


def test_what_others_make_is_pinned() -> None:
    assert len(OTHERS) >= 10
    for one in OTHERS:
        if one.kind == "kustomization":
            assert re.fullmatch(r"[0-9a-f]{40}", one.version), f"{one.name}: a tag may move"
        else:
            assert re.fullmatch(r"v?\d+\.\d+\.\d+", one.version)
            # an index tells the sum; a registry has none, and Airflow's index could not be asked
            assert one.sha256 or one.address.startswith("oci://") or one.name == "airflow"


def test_versions_agree_with_what_else_names_them() -> None:
    by_name = {one.name: one for one in OTHERS}
    lock = (INFRA / "requirements" / "kubeflow.lock").read_text()
    assert f"\nkfp=={by_name['kubeflow-pipelines'].was}" in lock
    assert by_name["kubeflow-kinds"].version == by_name["kubeflow-pipelines"].version
    for name, key in (("jobset", ("image",)), ("kueue", ("controllerManager", "manager", "image"))):
        values = yaml.safe_load((INFRA / by_name[name].values[0]).read_text())
        for word in key:
            values = values[word]
        assert values["tag"] == f"v{by_name[name].version}" and values["repository"].startswith("registry.k8s.io/")
    said = (INFRA / "airflow" / "values.yaml").read_text().partition("\n")[0]
    assert by_name["airflow"].version in said


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": ""}, "a chart has a name and a version"),
        ({"sha256": "12"}, "sha256"),
        ({"kidn": "chart"}, "kidn"),
        ({"kind": "kustomization", "address": "https://example.com/x", "version": ""}, "has a commit as its version"),
    ],
)
def test_a_wrong_entry_is_told_with_its_place(tmp_path: Path, change: dict[str, str], told: str) -> None:
    whole = yaml.safe_load(ADDONS.read_text())
    entry = next(one for one in whole["addons"] if one["name"] == "metrics-server")
    entry.update(change)
    path = tmp_path / "addons.yaml"
    path.write_text(yaml.safe_dump(whole))
    with pytest.raises(InputError, match=told):
        read_addons(path)


def test_placeholders_are_whole_words_and_values_are_not_read_again() -> None:
    given = {"BUCKET": "my-REGION", "REGION": "eu", "ACCOUNT.dkr/x@sha256:" + "0" * 64: "ours@sha256:1"}
    item = {
        "BUCKET": "s3://BUCKET/store",
        "name": "AWS_REGION",
        "at": ["REGION-1", 7],
        "image": "ACCOUNT.dkr/x@sha256:" + "0" * 64,
    }
    assert filled(item, given) == {
        "BUCKET": "s3://my-REGION/store", "name": "AWS_REGION", "at": ["eu-1", 7], "image": "ours@sha256:1"
    }  # fmt: skip
    with pytest.raises(StepFailed, match="ACCOUNT, BUCKET"):
        check_filled("x", ["s3://BUCKET", {"a": "arn:ACCOUNT:b"}])
    with pytest.raises(StepFailed, match="an image's digest"):
        check_filled("x", {"image": "a@sha256:" + "0" * 64})


def test_a_real_program_gets_its_input_and_its_failure_is_one_line(tmp_path: Path) -> None:
    program = tmp_path / "kubectl"
    program.write_text(
        "#!/bin/sh\ncat\necho \"$2\"\necho 'warning: x' >&2\nprintf 'Error: no \\033[31mroom\\nUsage\\n' >&2\nexit $1\n"
    )
    program.chmod(0o755)
    tools = Tools({"PATH": f"{tmp_path}:/bin:/usr/bin"})
    assert tools.said(str(program), "0", "$(id) ; x", given="given\n") == "given\n$(id) ; x\n"
    with pytest.raises(StepFailed) as caught:
        tools.run(str(program), "3", "apply", given="")
    assert "\x1b" not in str(caught.value) and str(caught.value).startswith("kubectl 3 apply: Error: no ")
    with pytest.raises(StepFailed, match="helm is not installed: https"):
        Tools({"PATH": str(tmp_path)}).run("helm", "list")
    assert Tools({"PATH": str(tmp_path)}).missing(["kubectl", "helm"]) == ["helm: " + _install("helm")]


def _install(name: str) -> str:
    from infra.deploy.tools import HOW_TO_INSTALL

    return HOW_TO_INSTALL[name]
