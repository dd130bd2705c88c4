"""Great Expectations without what checks of rows never use: the same evidence, and every library is still there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.runtime.gates.conftest import demonstrations

LEAN = """
import sys
import components.runtime.gates.library
from great_expectations.expectations.core import expect_column_kl_divergence_to_be_less_than as kl
assert not {"sqlalchemy", "google.auth", "google.oauth2", "scipy.stats"} & sys.modules.keys()
late = kl.stats.entropy([0.5, 0.5], [0.25, 0.75])
import google.auth, google.oauth2.service_account, scipy.stats, sqlalchemy.orm
assert scipy.stats is sys.modules["scipy.stats"] and late == scipy.stats.entropy([0.5, 0.5], [0.25, 0.75])
"""
WHOLE = """
import json, sys
import great_expectations
from components.runtime.gates.worker import answer
assert {"sqlalchemy", "scipy.stats"} <= sys.modules.keys()
print(json.dumps(answer(json.loads(sys.argv[1]))["results"]["failures"]))
"""


def test_what_was_left_out_can_be_imported_afterwards() -> None:
    subprocess.run([sys.executable, "-c", LEAN], check=True)


def test_evidence_has_the_bytes_of_the_whole_library(gate, tmp_path: Path) -> None:
    rows = demonstrations(9)
    rows[4]["verifier"] = None
    result = gate("demonstrations", rows)
    (tmp_path / "whole").mkdir()
    request = {"port": "dataset", "folder": str(tmp_path), "kind": "demonstrations", "expectations": []}
    command = [sys.executable, "-c", WHOLE, json.dumps({**request, "report": str(tmp_path / "whole")})]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout.splitlines()[-1]) == result.failures != []
    for name in ("results.json", "index.html"):
        assert (gate.report / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_the_expectation_that_needs_statistics_has_them(gate, expect) -> None:
    rows = demonstrations(4)
    of_two = {"values": ["sum", "product"], "weights": [0.5, 0.5]}
    given = {"column": "domain", "partition_object": of_two}
    kl = "expect_column_kl_divergence_to_be_less_than"
    assert gate("demonstrations", rows, expect(kl, **given, threshold=0.694)).success  # ln 2 = 0.6931
    [failure] = gate("demonstrations", rows, expect(kl, **given, threshold=0.693)).failures
    assert failure.startswith("the kl_divergence of domain is 0.6931") and kl in failure
