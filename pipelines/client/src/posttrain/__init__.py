"""Declare a multistage post-training recipe once; run it from a notebook or a script; look at what it made.

    import posttrain

    run = posttrain.run("quickstart", set={"rl_steps": 20})     # the same call goes on after an interrupt
    posttrain.fork(run, "rl@40", set={"stages.rl.with.group_size": 16})    # from a checkpoint that it kept
    run.metrics(); run.history("rl"); run.samples("rl"); run.lineage("rl.model"); run.model("rl.model")
    posttrain.Run("latest")                                      # shown as its report

Nothing heavy is imported before it is used. Errors are exceptions with one message, all of them `PosttrainError`
except `RunInterrupted`, which is a KeyboardInterrupt.
"""

from components.contract.errors import (
    CorruptArtifact,
    InputError,
    PosttrainError,
    StoreUnavailable,
    UnknownName,
)
from components.contract.samples import Sample
from pipelines.client.endings import ApprovalNeeded, RunFailed
from pipelines.client.errors import RunInterrupted
from pipelines.client.lineage import Lineage
from pipelines.client.plan import Plan, plan, validate
from pipelines.client.report import Report
from pipelines.client.run import Run, runs
from pipelines.client.samples import Samples
from pipelines.client.start import fork, run
from pipelines.language.problems import RecipeErrors

__all__ = [
    "ApprovalNeeded",
    "CorruptArtifact",
    "InputError",
    "Lineage",
    "Plan",
    "PosttrainError",
    "RecipeErrors",
    "Report",
    "Run",
    "RunFailed",
    "RunInterrupted",
    "Sample",
    "Samples",
    "StoreUnavailable",
    "UnknownName",
    "fork",
    "plan",
    "run",
    "runs",
    "validate",
]
