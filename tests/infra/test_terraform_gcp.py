"""Google Cloud's terraform, as far as it can be checked without Google's provider: text, references, pools, outputs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pipelines.recipe.pools import load_pools
from tests.infra.conftest import INFRA
from tests.infra.test_terraform import _by_label

pytestmark = pytest.mark.infra
FOLDER = INFRA / "terraform" / "gcp"
TEXT = "\n".join(path.read_text() for path in sorted(FOLDER.glob("*.tf")))
CODE = re.sub(r"^\s*#.*$", "", TEXT, flags=re.MULTILINE)
MACHINES = {
    "n2-standard-16": (16, 64, 0),
    "g2-standard-8": (8, 32, 1),
    "a3-highgpu-1g": (26, 234, 1),
    "a3-highgpu-8g": (208, 1872, 8),
}
"""Google's machine types that variables.tf names: vCPUs, GiB of memory, GPUs."""


def allocatable_gib(memory_gib: float) -> float:
    """Return what GKE leaves for pods: it keeps a quarter of the first 4 GiB, a fifth of the next 4, and so on."""
    kept, last = 0.0, 0.0
    for until, share in ((4, 0.25), (8, 0.2), (16, 0.1), (128, 0.06), (float("inf"), 0.02)):
        kept += share * (min(memory_gib, until) - last) if memory_gib > last else 0
        last = min(memory_gib, until)
    return memory_gib - kept - 0.1


def test_gke_s_share_is_as_its_page_says() -> None:
    assert allocatable_gib(4) == pytest.approx(2.9)
    assert allocatable_gib(16) == pytest.approx(16 - 1 - 0.8 - 0.8 - 0.1)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, object]]]:
    """What terraform itself makes of the variables and of the file of pools; neither needs a provider."""
    folder = tmp_path_factory.mktemp("work") / "terraform" / "gcp"
    folder.mkdir(parents=True)
    for name in ("variables.tf", "pools.tf"):
        shutil.copy(FOLDER / name, folder)
    shutil.copy(INFRA / "pools.yaml", folder.parents[1])
    given = {"project": "team-1", "bucket": "b", "billing_account": "0-0-0", "budget_emails": ["team@example.com"]}
    (folder / "terraform.tfvars.json").write_text(json.dumps(given))
    asked = "jsonencode({machines = var.machines, pools = local.node_pools})"
    done = subprocess.run(
        ["terraform", "console"], cwd=folder, input=asked, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(json.loads(done.stdout))  # type: ignore[no-any-return]


def test_it_is_formatted() -> None:
    done = subprocess.run(
        ["terraform", "fmt", "-check", "-recursive", str(FOLDER)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_name_is_declared_and_every_variable_is_used() -> None:
    declared = set(re.findall(r'^variable "(\w+)"', CODE, re.MULTILINE))
    assert declared == set(re.findall(r"\bvar\.(\w+)", CODE))
    blocks = {f"{kind}.{name}" for kind, name in re.findall(r'^resource "(\w+)" "(\w+)"', CODE, re.MULTILINE)}
    named = set(re.findall(r"(?<!data\.)\b(google_\w+\.\w+)", CODE))
    assert len(blocks) >= 20 and named <= blocks
    local = set(re.findall(r"\blocal\.(\w+)", CODE))
    assert local <= set(re.findall(r"^  (\w+) += ", CODE, re.MULTILINE))


def test_every_pool_fits_the_machine_that_terraform_gives_it(
    evaluated: dict[str, dict[str, dict[str, object]]],
) -> None:
    wanted = _by_label()
    assert evaluated["machines"].keys() == evaluated["pools"].keys() == wanted.keys()
    for label, pools in wanted.items():
        cpus, memory_gib, gpus = MACHINES[str(evaluated["machines"][label]["type"])]
        assert evaluated["machines"][label]["gpus"] == evaluated["pools"][label]["gpus"] == gpus
        for pool in pools:
            assert pool.cpus <= cpus - 0.5 and pool.memory_gib <= allocatable_gib(memory_gib), label
            assert evaluated["pools"][label]["spot"] is pool.spot
    spots = {label for label, pool in evaluated["pools"].items() if pool["spot"]}
    assert spots == {pool.node_selector["posttrain.dev/pool"] for pool in load_pools().values() if pool.spot}


def test_what_deploy_reads_is_an_output_of_both_clouds() -> None:
    code = "\n".join(path.read_text() for path in (INFRA / "deploy").rglob("*.py"))
    read = set(re.findall(r'outputs(?:\[|\.get\()"(\w+)"', code)) | set(
        re.findall(r'given\["(cluster|region)"\]', code)
    )
    own = {"location", "project"}
    for cloud, missing in (("aws", own), ("gcp", set())):
        text = "\n".join(path.read_text() for path in (INFRA / "terraform" / cloud).glob("*.tf"))
        assert read - missing <= set(re.findall(r'^output "(\w+)"', text, re.MULTILINE))
    assert {"cluster", "region", "store", "roles", "registries", "databases", "network"} <= read


def test_it_is_closed_and_nothing_is_lost_by_mistake() -> None:
    for setting in (
        'datapath_provider = "ADVANCED_DATAPATH"',
        'public_access_prevention    = "enforced"',
        "uniform_bucket_level_access = true",
        "enable_private_nodes    = true",
        "ipv4_enabled    = false",
        'ssl_mode        = "ENCRYPTED_ONLY"',
        "immutable_tags = true",
        "retention_duration_seconds = var.noncurrent_days * 86400",
        "deletion_protection = var.keep_data",
    ):
        assert setting in TEXT
    assert TEXT.count('mode = "GKE_METADATA"') == len(re.findall(r'^resource "google_container_node_pool"', TEXT, re.M))
    assert not re.search(r"password|hmac_key|\bgoogle_service_account_key\b", CODE), "no secret is in a state"


def test_both_folders_read_the_pools_file_alike() -> None:
    aws, gcp = ((Path(INFRA) / "terraform" / cloud / "pools.tf").read_text() for cloud in ("aws", "gcp"))
    assert aws.partition("\n")[2] == gcp.partition("\n")[2]
