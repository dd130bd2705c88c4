"""Every in-tree component and operator with its lazy target. Adding one takes one line here."""

from __future__ import annotations

COMPONENTS: dict[str, str] = {
    name: f"components.{name}.component:COMPONENT"
    for name in ("pretrain", "curate", "sft", "rl", "replay", "select", "evaluate")
}

OPERATORS: dict[str, dict[str, str]] = {
    # components/tasks
    "source": {},
    "verifier": {},
    "demonstrator": {},
    # components/rl, in the order of the loop
    "sampler": {},
    "rollout": {},
    "reward": {},
    "guidance": {},
    "filter": {},
    "advantage": {},
    "objective": {},
    "regularizer": {},
    "reference": {},
    "schedule": {},
}
