"""Every in-tree component and operator with its lazy target. Adding one takes one line here."""

from __future__ import annotations

COMPONENTS: dict[str, str] = {
    name: f"components.{name}.component:COMPONENT"
    for name in ("pretrain", "curate", "sft", "rl", "replay", "select", "evaluate")
}

OPERATORS: dict[str, dict[str, str]] = {
    # components/tasks
    "source": {
        "artifact": "components.tasks.sources.artifact:artifact",
        "hf": "components.tasks.sources.hf:hf",
        "jsonl": "components.tasks.sources.jsonl:jsonl",
        "parquet": "components.tasks.sources.parquet:parquet",
        "reasoning_gym": "components.tasks.sources.reasoning_gym:reasoning_gym",
        "s3": "components.tasks.sources.s3:s3",
    },
    "verifier": {
        "choice": "components.tasks.verifiers.choice:choice",
        "exact": "components.tasks.verifiers.exact:exact",
        "formula": "components.tasks.verifiers.formula:formula",
        "numeric": "components.tasks.verifiers.numeric:numeric",
        "reasoning_gym": "components.tasks.verifiers.reasoning_gym:reasoning_gym",
        "regex": "components.tasks.verifiers.regex:regex",
    },
    "demonstrator": {
        "chain_sum_trace": "components.tasks.demonstrators.chain_sum_trace:chain_sum_trace",
        "gold": "components.tasks.demonstrators.gold:gold",
        "wrong": "components.tasks.demonstrators.wrong:wrong",
    },
    # components/rl, in the order of the loop
    "sampler": {
        "epoch_shuffle": "components.rl.samplers.epoch_shuffle:epoch_shuffle",
        "uniform": "components.rl.samplers.uniform:uniform",
    },
    "rollout": {"group": "components.rl.rollouts.group:group"},
    "reward": {
        "overlong": "components.rl.rewards.overlong:overlong",
        "pattern": "components.rl.rewards.pattern:pattern",
        "verifier": "components.rl.rewards.verifier:verifier",
    },
    "guidance": {"none": "components.rl.guidance.none:none"},
    "filter": {
        "drop_equal_rewards": "components.rl.filters.drop_equal_rewards:drop_equal_rewards",
        "drop_truncated": "components.rl.filters.drop_truncated:drop_truncated",
        "dynamic_sampling": "components.rl.filters.dynamic_sampling:dynamic_sampling",
    },
    "advantage": {
        "group_mean": "components.rl.advantages.group_mean:group_mean",
        "group_mean_std": "components.rl.advantages.group_mean_std:group_mean_std",
        "leave_one_out": "components.rl.advantages.leave_one_out:leave_one_out",
        "plain_reward": "components.rl.advantages.plain_reward:plain_reward",
    },
    "objective": {
        "policy_gradient": "components.rl.objectives.policy_gradient:policy_gradient",
        "ppo_clip": "components.rl.objectives.ppo_clip:ppo_clip",
    },
    "regularizer": {
        "entropy": "components.rl.regularizers.entropy:entropy",
        "kl": "components.rl.regularizers.kl:kl",
    },
    "reference": {
        "initial": "components.rl.references.initial:initial",
        "none": "components.rl.references.none:none",
    },
    "schedule": {
        "anneal": "components.rl.schedules.anneal:anneal",
        "constant": "components.rl.schedules.constant:constant",
    },
}
