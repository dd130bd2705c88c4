"""Fixtures for the infrastructure: a copy of it to work in, and terraform with its providers."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

INFRA = Path(__file__).parents[2] / "infra"
MIRROR = "POSTTRAIN_TEST_TERRAFORM_MIRROR"
"""Folder of terraform providers, for machines that cannot reach the public registry."""

Terraform = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def terraform(tmp_path_factory: pytest.TempPathFactory) -> Terraform:
    """Run terraform on what it is `given` in a copy of the folder for AWS and the pools file; asserts success."""
    work = tmp_path_factory.mktemp("terraform")
    shutil.copy(INFRA / "pools.yaml", work)
    folder = work / "terraform" / "aws"
    shutil.copytree(INFRA / "terraform" / "aws", folder, ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*"))
    settings = work / "terraform.rc"
    mirror = os.environ.get(MIRROR)
    method = f'filesystem_mirror {{ path = "{mirror}" }}' if mirror else "direct {}"
    settings.write_text(f"provider_installation {{\n  {method}\n}}\ndisable_checkpoint = true\n")
    environment = {**os.environ, "TF_CLI_CONFIG_FILE": str(settings), "TF_IN_AUTOMATION": "1", "NO_COLOR": "1"}

    def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        command = ["terraform", *arguments]
        done = subprocess.run(
            command, cwd=folder, env=environment, input=given, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    run("init", "-input=false", "-no-color")
    return run
