"""The sandbox: everything that evaluates model output runs in here. See README.md."""

from components.runtime.sandbox.inside import programs
from components.runtime.sandbox.reply import Limits, NoSandbox, Reply, Status
from components.runtime.sandbox.sandbox import Sandbox, open_sandbox

RUN_PYTHON = f"{programs.__name__}:{programs.run_python.__name__}"
RUN_COMMAND = f"{programs.__name__}:{programs.run_command.__name__}"

__all__ = ["RUN_COMMAND", "RUN_PYTHON", "Limits", "NoSandbox", "Reply", "Sandbox", "Status", "open_sandbox"]
