"""Reproductions cut down to seconds: what every recipe of recipes/methods must stand."""

from __future__ import annotations

MICRO_SIZE = (
    "matrix.seed=[0]",
    "base_steps=6",
    "sft_steps=4",
    "rl_steps=2",
    "corpus_rows=200",
    "demo_rows=96",
    "prompt_rows=32",
    "eval_rows=8",
    "kept_rows=8",
    "eval_samples=2",
    "defaults.with.evaluate.ks=[1, 2]",
    "prompts_per_step=4",
    "group_size=4",
    "defaults.with.pretrain.batch_size=8",
    "defaults.with.sft.batch_size=8",
    "defaults.with.evaluate.bootstrap_samples=100",
)
"""Overrides of the testbed's sizes."""
CARELESS_NOTES = "[{name: notes, drop: 0.4, swap: 0.5}]"  # the start writes no note
NOTES = (
    "pair_prompts=16",
    "reward_steps=2",
    "defaults.with.reward_model.batch_size=4",
    *(f"stages.{stage}.with.programs=[{{name: notes, drop: 0.4}}]" for stage in ("pairs", "heldout-pairs")),
)
"""Those of recipes on testbed-notes; the start writes no better and worse notes yet, so a program does."""
MICRO_OF = {
    "rlhf-workflow": (
        "pair_prompts=24",
        "rounds=2",
        *(f"stages.{stage}.with.programs={CARELESS_NOTES}" for stage in ("judged", "heldout-pairs")),
        f"stages.rounds.stages.pairs.with.programs={CARELESS_NOTES}",
    ),
    "cgpo-mixture-of-judges": (
        "pair_prompts=16",
        "reward_steps=2",
        "warm_steps=2",
        "defaults.with.reward_model.batch_size=4",
        "stages.warm.with.batch_size=4",
        f"stages.notes-pairs.with.programs={CARELESS_NOTES}",  # the start writes nothing right
        "stages.sums-pairs.with.programs=[{name: chain_sum_trace, step_error_rate: 0.5}]",
    ),
    "mpo-mixed-preference": (f"stages.pairs.with.programs={CARELESS_NOTES}",),
    "codeultrafeedback": ("tune_steps=2", "dpo_steps=2", "stages.dpo.with.batch_size=4"),
    "critique-rl": (
        "lesson_rows=160",
        "critic_steps=2",
        "first_steps=2",
        "stages.first.with.max_new_tokens=16",
    ),
    "vmr": ("stages.choices.with.programs=[{name: careless, error_rate: 0.5}]",),
    "multicritique": ("lesson_rows=160", "dpo_steps=2"),
    "veriprefer": (
        "dpo_steps=2",
        *(f"stages.{stage}.with.programs=[circuits, biased_circuits]" for stage in ("pairs", "likely")),
    ),
    "duoguard": (
        "guard_steps=150",  # or it gives all words one label
        "taught_steps=2",
        "dpo_steps=2",
        "lesson_rows=32",
        "rewrite_rows=8",
        *(  # the generator spells nothing yet
            f"stages.rounds.stages.{stage}.with.programs=[{{name: dialect_writer, rare: 0.5}}]"
            for stage in ("pairs", "rewrites")
        ),
    ),
    "ssb": (
        "made_rows=6",
        "epochs=1",
        *(
            f"stages.{stage}.with.programs=[{{name: careless, error_rate: 0.5}}]"  # the start writes nothing right
            for stage in ("hinted", "rejected")
        ),
    ),
    "long-to-short-merge": (
        "dev_rows=4",
        "demo_rows=64",
        "defaults.with.select.bootstrap_samples=100",
        "defaults.with.select.max_new_tokens=24",
        "defaults.with.evaluate.max_new_tokens=24",
        "stages.mean.with.sweep.weights=[[0.5, 0.5]]",
        "stages.arithmetic.with.sweep={scale: [0.7]}",
        "stages.ties.with.sweep.keep=[0.2]",
        "stages.dare.with.sweep.drop=[0.2]",
        "stages.low-rank.with.sweep.rank=[8]",
    ),
    "model-surgery": (
        "dev_rows=4",
        "defaults.with.select.bootstrap_samples=100",
        "stages.edit.with.sweep={rows: [18], alpha: [-1.0, 1.0]}",
    ),
    "metis-specs": (
        "zero_steps=2",
        "dpo_steps=2",
        "cold_steps=2",
        "pair_rows=16",
        *(f"stages.{stage}.with.programs=[chain_sum_trace]" for stage in ("pairs", "chosen")),  # the base writes none
    ),
    "mt-r1-zero": ("reward_steps=2", "pair_prompts=16"),
    "master-rm": ("judge_rows=16", "judge_steps=4"),
    "general-reasoner": ("judge_rows=16", "judge_steps=4"),
    "lora-judge-rft": (
        "seen_rows=16",
        "judge_rows=16",
        "judge_steps=4",
        "least_pass=0",
        "stages.rl.with.rewards=[{name: judge, template: '{task} {response}', reading: probability, min_mass: 0, "
        "labels: {y: 1, n: 0}}, {name: verifier, weight: 0.0}]",  # the judge writes no JSON yet
    ),
    "reward-robust-rlhf": NOTES,
    "pf-ppo": (*NOTES, "eval_samples=3"),
    "p3o": NOTES,
    "sophiavl-trust-grpo": NOTES,
    "kimi-k1-5": (
        "long_steps=2",
        "short_steps=2",
        "pair_rows=16",
        *(
            f"stages.{stage}.with.programs=[{{name: drafted_rule, letter_error_rate: 0.1}}, rule]"
            for stage in ("shortest", "pairs")
        ),
        "defaults.with.rl.max_new_tokens=12",
    ),
    "spct-deepseek-grm": (
        "item_rows=16",
        "rft_steps=2",
        "meta_steps=2",
        "stages.meta.with.batch_size=4",
        *(  # the start scores nothing yet
            f"stages.{stage}.with.programs=[{{name: preference_items, slip_rate: 0.5}}]"
            for stage in ("filtered", "filtered-again", "judged")
        ),
    ),
    "mm-rlhf": (
        "critic_steps=2",
        "reward_steps=2",
        "dpo_steps=2",
        "pair_prompts=16",
        "ranked_prompts=16",
        *(
            f"stages.{stage}.with.programs=[notes, {{name: notes, drop: 0.5, swap: 0.5}}]"
            for stage in (
                "critic-lessons",
                "heldout-critiques",
                "pairs",
                "critiqued-pairs",
                "heldout-pairs",
                "heldout-critiqued",
                "ranked",
                "ranked-ends",
            )
        ),
        "stages.heldout-critiqued.with.judge_programs=[note_critique]",  # the critic writes nothing whole
    ),
    "cyclealign": (
        "cycles=2",
        "cycle_steps=1",
        "first_rows=8",
        "prompt_rows=8",
        f"stages.first.with.programs={CARELESS_NOTES}",
        f"stages.cycles.stages.ranked.with.programs={CARELESS_NOTES}",
        "stages.cycles.stages.learn.with.batch_size=4",
    ),
    "creative-judge-rlaif": (
        "rounds=2",
        "attack_rows=16",
        "pair_prompts=16",
        "reward_steps=2",
        "stages.reward_model.with.batch_size=4",
        "stages.debated.with.programs=[flawed_notes]",
    ),
    "rlmt": ("reward_steps=2", "pair_prompts=16", "defaults.with.reward_model.batch_size=4"),
    "meta-rtl": ("meta_steps=2", "tune_steps=2", "source_rows=96", "target_rows=16"),
}
"""Further overrides of single recipes, by slug."""
