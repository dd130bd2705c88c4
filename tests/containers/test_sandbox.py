"""The sandbox inside of the hardened image: the default tests' escape suite, held where no namespace is allowed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from components.contract.job import Job
from pipelines.engines.local.containers import Containers
from tests.containers.conftest import BUCKET, IMAGE, Network

pytestmark = [pytest.mark.containers, pytest.mark.slow]
TESTS = Path(__file__).parents[1]
SUITE = ("-m", "tests.runtime.sandbox.escapes")
LAST = re.compile(r"^(\w+): (\d+) hostile programs, (\d+) not held$", re.MULTILINE)
SUITE_SECONDS = 900
LANDLOCK = ("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")
NAMESPACES = ("unshare", "mount", "setns", "pivot_root")
NEITHER = {
    "defaultAction": "SCMP_ACT_ALLOW",
    "syscalls": [
        {"names": list(names), "action": "SCMP_ACT_ERRNO", "errnoRet": number}
        for names, number in ((LANDLOCK, 38), (NAMESPACES, 1))
    ],
}
"""A seccomp profile under which neither backend of the sandbox works."""
CONTAINERS = Path(__file__).parents[2] / "infra" / "images" / "containers.conf"
STORE = f"s3://{BUCKET}/store"
RECIPE = """
name: judged
summary: References that are judged by a library which evaluates them
seed: 0
defaults: {pool: cpu, retries: 0}
stages:
  prompts:
    uses: curate
    with:
      kind: prompts
      sources: [{domain: numbers, count: 6, source: {name: reasoning_gym, task: countdown, seed: 1}}]
"""
CLOSED = """
import json
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
print(json.dumps([int(status["CapEff"], 16), int(status["NoNewPrivs"])]))
"""


def test_the_container_has_no_capability_and_no_way_to_privileges() -> None:
    done = _run("-c", CLOSED, seconds=120)
    assert json.loads(done.stdout) == [0, 1]


def test_every_hostile_program_is_held_inside_of_the_hardened_image() -> None:
    done = _run(*SUITE, seconds=SUITE_SECONDS)
    print(done.stdout)
    (told,) = LAST.findall(done.stdout)
    backend, programs, escaped = told
    assert (done.returncode, int(escaped)) == (0, 0), done.stdout + done.stderr
    assert backend in ("landlock", "bubblewrap")
    assert int(programs) >= 40


def test_without_namespaces_and_landlock_nothing_runs_and_one_line_says_what_to_install(tmp_path: Path) -> None:
    profile = tmp_path / "seccomp.json"
    profile.write_text(json.dumps(NEITHER))
    done = _run(*SUITE, seconds=300, options=("--security-opt", f"seccomp={profile}"))
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert "apt-get install bubblewrap" in done.stderr and "Landlock" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_stage_verifies_in_the_sandbox_of_its_container_and_refuses_without_one(
    network: Network, bucket: dict[str, str], tmp_path: Path
) -> None:
    recipe, profile, settings = (tmp_path / name for name in ("recipe.yaml", "seccomp.json", "containers.conf"))
    recipe.write_text(RECIPE)
    profile.write_text(json.dumps(NEITHER))
    settings.write_text(CONTAINERS.read_text().replace("[engine]", f'seccomp_profile = "{profile}"\n[engine]'))
    own = {"POSTTRAIN_CONTAINER_NETWORK": network.name, "POSTTRAIN_IMAGE_CPU": IMAGE, "POSTTRAIN_LINEAGE": "later"}
    variables = {**os.environ, **bucket, **own}

    def run(environment: dict[str, str], *more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pipelines.cli", "run", str(recipe), "--containers", "--store", STORE, *more]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=900)

    refused = run({**variables, "CONTAINERS_CONF": str(settings)})
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "apt-get install bubblewrap" in refused.stdout
    assert "Traceback" not in refused.stdout + refused.stderr
    done = run(variables, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    (stage,) = json.loads(done.stdout)["stages"]
    assert stage["metrics"]["num_rows"] == 6


def _run(*program: str, seconds: float, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run Python so as the engine runs a stage; the code is the image's, the tests are this tree's."""
    fields = {"run_id": "r", "recipe": "x", "stage": "sft", "component": "sft", "params": {}, "inputs": {}, "seed": 0}
    job = Job.model_validate({**fields, "store": "s3://any/store", "resources": {"memory_gib": 4}})
    name = f"sandbox-{uuid.uuid4().hex[:8]}"
    command = Containers("podman", {"cpu": IMAGE}, "none").command(job, name, {})
    assert {"--read-only", "no-new-privileges"} <= set(command)
    mount = ("--volume", f"{TESTS}:/opt/posttrain/tests:ro")
    command[-1:] = [*mount, *options, "--entrypoint", "python", IMAGE, *program]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    finally:
        subprocess.run(["podman", "rm", "--force", "--time", "0", name], capture_output=True)
