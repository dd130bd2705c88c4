"""The sandbox: everything that evaluates what a model wrote does so in here. See README.md."""

from components.runtime.sandbox.reply import Limits, NoSandbox, Reply, Status
from components.runtime.sandbox.sandbox import Sandbox, open_sandbox

__all__ = ["Limits", "NoSandbox", "Reply", "Sandbox", "Status", "open_sandbox"]
