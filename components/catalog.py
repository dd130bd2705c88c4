"""Every in-tree component and operator with its lazy target. Adding one takes one line here."""

from __future__ import annotations

COMPONENTS: dict[str, str] = {
    name: f"components.{name}.component:COMPONENT"
    for name in ("pretrain", "curate", "sft", "rl", "replay", "select", "evaluate", "adopt")
}

OPERATORS: dict[str, dict[str, str]] = {
    # components/tasks
    "source": {
        "artifact": "components.tasks.sources.artifact:artifact",
        "continuations": "components.tasks.sources.continuations:continuations",
        "guided": "components.tasks.sources.guided:guided",
        "hf": "components.tasks.sources.hf:hf",
        "jsonl": "components.tasks.sources.jsonl:jsonl",
        "parquet": "components.tasks.sources.parquet:parquet",
        "reasoning_gym": "components.tasks.sources.reasoning_gym:reasoning_gym",
        "rules": "components.tasks.sources.rules:rules",
        "s3": "components.tasks.sources.s3:s3",
    },
    "verifier": {
        "choice": "components.tasks.verifiers.choice:choice",
        "exact": "components.tasks.verifiers.exact:exact",
        "math_verify": "components.tasks.verifiers.math_verify:math_verify",
        "numeric": "components.tasks.verifiers.numeric:numeric",
        "reasoning_gym": "components.tasks.verifiers.reasoning_gym:reasoning_gym",
        "regex": "components.tasks.verifiers.regex:regex",
    },
    "demonstrator": {
        "chain_sum_trace": "components.tasks.demonstrators.chain_sum_trace:chain_sum_trace",
        "gold": "components.tasks.demonstrators.gold:gold",
        "repeated_trace": "components.tasks.demonstrators.repeated_trace:repeated_trace",
        "recorded": "components.tasks.demonstrators.recorded:recorded",
        "rule": "components.tasks.demonstrators.rule:rule",
        "wrong": "components.tasks.demonstrators.wrong:wrong",
    },
    # components/rl, in the order of the loop
    "sampler": {
        "adaptive_difficulty": "components.rl.samplers.adaptive_difficulty:adaptive_difficulty",
        "again": "components.rl.samplers.again:again",
        "alp_gmm": "components.rl.samplers.alp_gmm:alp_gmm",
        "angle_window": "components.rl.samplers.angle_window:angle_window",
        "boltzmann_bandit": "components.rl.samplers.boltzmann_bandit:boltzmann_bandit",
        "epoch_shuffle": "components.rl.samplers.epoch_shuffle:epoch_shuffle",
        "highest_variance": "components.rl.samplers.highest_variance:highest_variance",
        "rare_pairs": "components.rl.samplers.rare_pairs:rare_pairs",
        "ucb_bandit": "components.rl.samplers.ucb_bandit:ucb_bandit",
        "replay_mixture": "components.rl.samplers.replay_mixture:replay_mixture",
        "uniform": "components.rl.samplers.uniform:uniform",
    },
    "rollout": {
        "annealed_group": "components.rl.rollouts.annealed_group:annealed_group",
        "group": "components.rl.rollouts.group:group",
        "group_ahead": "components.rl.rollouts.group_ahead:group_ahead",
        "hardness": "components.rl.rollouts.hardness:hardness",
        "offline_group": "components.rl.rollouts.offline_group:offline_group",
    },
    "reward": {
        "information_gain": "components.rl.rewards.information_gain:information_gain",
        "overlong": "components.rl.rewards.overlong:overlong",
        "pattern": "components.rl.rewards.pattern:pattern",
        "verifier": "components.rl.rewards.verifier:verifier",
    },
    "guidance": {
        "critical_pairs": "components.rl.guidance.critical_pairs:critical_pairs",
        "demonstrations": "components.rl.guidance.demonstrations:demonstrations",
        "none": "components.rl.guidance.none:none",
        "reformulate": "components.rl.guidance.reformulate:reformulate",
    },
    "filter": {
        "drop_equal_rewards": "components.rl.filters.drop_equal_rewards:drop_equal_rewards",
        "drop_truncated": "components.rl.filters.drop_truncated:drop_truncated",
        "dynamic_sampling": "components.rl.filters.dynamic_sampling:dynamic_sampling",
    },
    "advantage": {
        "ace": "components.rl.advantages.ace:ace",
        "canon": "components.rl.advantages.canon:canon",
        "confidence_gap": "components.rl.advantages.confidence_gap:confidence_gap",
        "effective_rank": "components.rl.advantages.effective_rank:effective_rank",
        "entropy_share": "components.rl.advantages.entropy_share:entropy_share",
        "gae": "components.rl.advantages.gae:gae",
        "group_mean": "components.rl.advantages.group_mean:group_mean",
        "group_mean_batch_std": "components.rl.advantages.group_mean_batch_std:group_mean_batch_std",
        "group_mean_std": "components.rl.advantages.group_mean_std:group_mean_std",
        "leave_one_out": "components.rl.advantages.leave_one_out:leave_one_out",
        "objective_weights": "components.rl.advantages.objective_weights:objective_weights",
        "min_p_proxy": "components.rl.advantages.min_p_proxy:min_p_proxy",
        "on_policy_group": "components.rl.advantages.on_policy_group:on_policy_group",
        "pass_rates": "components.rl.advantages.pass_rates:pass_rates",
        "plain_reward": "components.rl.advantages.plain_reward:plain_reward",
        "rare_events": "components.rl.advantages.rare_events:rare_events",
        "reward_minus_kl": "components.rl.advantages.reward_minus_kl:reward_minus_kl",
        "signed_outcome": "components.rl.advantages.signed_outcome:signed_outcome",
        "smoothed_standard": "components.rl.advantages.smoothed_standard:smoothed_standard",
        "step_values": "components.rl.advantages.step_values:step_values",
        "truncated_importance": "components.rl.advantages.truncated_importance:truncated_importance",
        "vocabulary_means": "components.rl.advantages.vocabulary_means:vocabulary_means",
        "whiten": "components.rl.advantages.whiten:whiten",
    },
    "objective": {
        "adaptive_clip": "components.rl.objectives.adaptive_clip:adaptive_clip",
        "dpo": "components.rl.objectives.dpo:dpo",
        "elastic_clip": "components.rl.objectives.elastic_clip:elastic_clip",
        "hybrid_clip": "components.rl.objectives.hybrid_clip:hybrid_clip",
        "oreo": "components.rl.objectives.oreo:oreo",
        "pacs": "components.rl.objectives.pacs:pacs",
        "policy_gradient": "components.rl.objectives.policy_gradient:policy_gradient",
        "ppo_clip": "components.rl.objectives.ppo_clip:ppo_clip",
        "rl_plus": "components.rl.objectives.rl_plus:rl_plus",
        "rover": "components.rl.objectives.rover:rover",
        "sequence_clip": "components.rl.objectives.sequence_clip:sequence_clip",
        "weight_clip": "components.rl.objectives.weight_clip:weight_clip",
    },
    "regularizer": {
        "entropy": "components.rl.regularizers.entropy:entropy",
        "forward_kl": "components.rl.regularizers.forward_kl:forward_kl",
        "kl": "components.rl.regularizers.kl:kl",
        "lp_reg": "components.rl.regularizers.lp_reg:lp_reg",
        "offline_kl": "components.rl.regularizers.offline_kl:offline_kl",
    },
    "reference": {
        "ema": "components.rl.references.ema:ema",
        "initial": "components.rl.references.initial:initial",
        "none": "components.rl.references.none:none",
        "reset": "components.rl.references.reset:reset",
    },
    "replay": {
        "none": "components.rl.replays.none:none",
        "recompose": "components.rl.replays.recompose:recompose",
    },
    "critic": {
        "lambda_return": "components.rl.critics.lambda_return:lambda_return",
        "none": "components.rl.critics.none:none",
        "path_consistency": "components.rl.critics.path_consistency:path_consistency",
    },
    "schedule": {
        "anneal": "components.rl.schedules.anneal:anneal",
        "broaden": "components.rl.schedules.broaden:broaden",
        "constant": "components.rl.schedules.constant:constant",
    },
}
