"""The workflow of CI: actions by commit, no right beyond need, no secret in a shell, and nothing signed unscanned."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.infra.conftest import INFRA

FOLDER = INFRA.parent / ".github" / "workflows"
PATHS = sorted(path for path in FOLDER.rglob("*") if path.suffix in (".yml", ".yaml"))
BY_COMMIT = re.compile(r"\s+(- )?uses: [\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
Step = dict[str, Any]


def document() -> dict[Any, Any]:
    """Return the workflow; its word `on` is YAML 1.1's true."""
    (path,) = PATHS
    return yaml.safe_load(path.read_text())  # type: ignore[no-any-return]


def steps() -> Iterator[tuple[str, Step]]:
    """Yield each step with its job's name."""
    for name, job in document()["jobs"].items():
        for step in job["steps"]:
            yield name, step


def place(wanted: str) -> int:
    """Return where the one step of the job `publish` stands that says `wanted`."""
    (found,) = [index for index, step in enumerate(document()["jobs"]["publish"]["steps"]) if wanted in str(step)]
    return found


def test_every_action_is_named_by_commit_with_its_version_beside_it() -> None:
    (path,) = PATHS
    lines = [line for line in path.read_text().splitlines() if "uses:" in line]
    assert len(lines) == sum("uses" in step for _, step in steps()) == 13
    assert not [line for line in lines if not BY_COMMIT.fullmatch(line)]
    commits = {line.split("uses: ")[1] for line in lines}
    assert len(commits) == len({text.split("@")[0] for text in commits}), "one action in two versions"


def test_a_job_may_write_only_where_it_publishes() -> None:
    whole = document()
    assert whole["permissions"] == {}
    rights = {name: job["permissions"] for name, job in whole["jobs"].items()}
    assert rights.pop("publish") == {"contents": "read", "packages": "write", "id-token": "write"}
    assert rights == {"test": {"contents": "read"}, "packages": {"contents": "read"}}
    # what a stranger proposes is never run with the right to write, or with this repository's secrets
    assert set(whole[True]) == {"pull_request", "push"}
    assert whole["jobs"]["publish"]["if"] == "github.event_name == 'push'"
    for _, step in steps():
        if "actions/checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


def test_no_shell_sees_a_secret_or_text_that_others_wrote() -> None:
    text = PATHS[0].read_text()
    assert "secrets." not in text
    assert text.count("github.token") == 1
    login = [step for _, step in steps() if "github.token" in str(step)]
    assert [step["uses"].split("@")[0] for step in login] == ["docker/login-action"]
    for _, step in steps():
        # values reach a shell as variables: an expression inside a script would be run as text
        assert "${{" not in step.get("run", "")
        assert not re.search(r"set -x|\bprintenv\b|(^|\s)env(\s|$)", step.get("run", ""))


def test_only_what_was_tested_and_scanned_is_signed_and_by_its_digest() -> None:
    publish = document()["jobs"]["publish"]
    assert publish["needs"] == ["test", "packages"]
    order = [place(text) for text in ("make images", "podman push", "scan-action", "cosign sign")]
    assert order == sorted(order)
    scan = publish["steps"][place("scan-action")]
    assert (scan["with"]["severity-cutoff"], scan["with"]["only-fixed"]) == ("high", "true")
    assert "fail-build" not in scan["with"]
    assert 'echo "image=$name@$(cat digest)"' in publish["steps"][place("podman push")]["run"]
    signing = publish["steps"][place("cosign sign")]
    assert signing["env"]["IMAGE"] == "${{ steps.push.outputs.image }}"
    assert not [step for step in publish["steps"] if step.get("continue-on-error")]


def test_the_images_and_locks_are_the_ones_that_build_sh_knows() -> None:
    jobs = document()["jobs"]
    build = (INFRA / "images" / "build.sh").read_text()
    kinds = re.findall(r"^  (\w+)\) .*;;", build, re.MULTILINE)
    assert jobs["publish"]["strategy"]["matrix"]["kind"] == kinds
    locks = re.findall(r"\block=([\w-]+)\.lock", build)
    assert jobs["packages"]["strategy"]["matrix"]["lock"] == locks


@pytest.mark.parametrize("job", ["test", "packages", "publish"])
def test_scripts_are_bash_and_their_targets_exist(job: str) -> None:
    makefile = (INFRA.parent / "Makefile").read_text()
    scripts = [step["run"] for name, step in steps() if name == job and "run" in step]
    assert scripts
    assert document()["jobs"][job]["timeout-minutes"]
    for script in scripts:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
        for target in re.findall(r"^make (\S+)", script, re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE)
