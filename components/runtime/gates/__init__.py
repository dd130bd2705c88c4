"""Data gates: Great Expectations on the rows of datasets and rollouts, in a separate worker process."""

from components.runtime.gates.known import check_expectation, known_expectations
from components.runtime.gates.process import GateProcess, GateResult

__all__ = ["GateProcess", "GateResult", "check_expectation", "known_expectations"]
