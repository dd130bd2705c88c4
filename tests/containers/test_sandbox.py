"""The sandbox inside of the hardened image: the default tests' escape suite, held where no namespace is allowed."""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from pathlib import Path

import pytest

from components.contract.job import Job
from pipelines.engines.containers import Containers
from tests.containers.conftest import IMAGE

pytestmark = [pytest.mark.containers, pytest.mark.slow]
TESTS = Path(__file__).parents[1]
SUITE = ("-m", "tests.runtime.sandbox.escapes")
LAST = re.compile(r"^(\w+): (\d+) hostile programs, (\d+) not held$", re.MULTILINE)
SUITE_SECONDS = 900
LANDLOCK = ("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")
NAMESPACES = ("unshare", "mount", "setns", "pivot_root")
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
    refused = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [
            {"names": list(names), "action": "SCMP_ACT_ERRNO", "errnoRet": number}
            for names, number in ((LANDLOCK, 38), (NAMESPACES, 1))
        ],
    }
    profile = tmp_path / "seccomp.json"
    profile.write_text(json.dumps(refused))
    done = _run(*SUITE, seconds=300, options=("--security-opt", f"seccomp={profile}"))
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert "apt-get install bubblewrap" in done.stderr and "Landlock" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


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
