"""Makes the counting stage known to the process that imports this: a command, or the fork server of its jobs."""

from components.contract.registry import components

components().add("chaos-count", "tests.chaos.counting:COMPONENT", origin="test")
