"""Alarms of the rl stage, in the order in which one explains the next: failed verification, a collapse, no signal.

Rows are steps of the stage. A policy that is always right has no entropy left and one reward: that is no collapse, so
the alarms on them do not hold where the pass rate is near 1.
"""

from __future__ import annotations

from components.contract.alarms import Alarm, Alone, Level, Parting, Quotient, Remainder, Stillness
from components.measure.alarms import verifier_raises
from components.modeling.supervised.alarms import NOT_FINITE

PHRASE_REWARDED = "phrase_rewarded"
SOLVED = ("pass_rate", 0.95)
STEADIER = "lower {optimizer.peak_learning_rate}, lengthen {optimizer.warmup_steps}, or add the regularizer kl"

RL_ALARMS = (
    NOT_FINITE,
    Alarm(
        name="verifier_failures",
        rule=Quotient(part="num_failed", whole="num_samples"),
        bound=0.2,
        rows=5,
        says="{value} of the verifications fail, so that these responses have no reward",
        helps="read why (posttrain samples RUN --failed), and run the verifier on rows by itself (posttrain try)",
        reason="single failures are timeouts on strange code; a fifth of all, five steps in a row, is the verifier",
    ),
    verifier_raises(rows=3),
    Alarm(
        name="sampler_gap",
        rule=Level(column="sampler_gap_mean"),
        bound=0.1,
        rows=3,
        says="what drew the tokens gives them log-probabilities that are {value} nats from the trainer's",
        helps="compare with `backend: {sampler: native}`: an engine runs other weights or another model; with rollout "
        "group_ahead, lower its max_staleness or {optimizer.peak_learning_rate}",
        reason="engines in bfloat16 differ by 0.001 to 0.03 nats; with 0.1 a response of 100 tokens has an importance "
        "weight of e^10 or e^-10, and truncated weights no longer correct for it",
    ),
    Alarm(
        name="all_truncated",
        rule=Level(column="truncated_share"),
        bound=0.98,
        rows=3,
        says="all responses are cut at the token limit",
        helps="raise {max_new_tokens}, or start from a model that ends its responses (sft before rl); "
        "if it began late, lower {optimizer.peak_learning_rate}",
        reason="a response that is cut has no answer to verify; DAPO (Yu et al. 2025, section 3.4) treats shares far "
        "below as a source of noise. Where nine of ten are cut, all 16 of a small step are cut in 18 % of the steps, "
        "and in three in a row in 1 of 160 cases; so three steps suffice, and show it in a short run, too",
        explained_by=("verifier_failures",),
    ),
    Alarm(
        name="length_collapsed",
        rule=Remainder(column="length_mean", floor=1.0),
        bound=0.1,
        rows=10,
        says="responses shrank to {value} tokens, from {start}",
        helps="look at the samples: an empty answer is rewarded, or length costs more than a right answer gains; "
        "else " + STEADIER,
        reason="a tenth of what responses had beside their end token; methods that shorten reasoning keep more of it",
        unless=("pass_rate", 0.5),
    ),
    Alarm(
        name="kl_beyond_bound",
        rule=Level(column="start_kl_k3"),
        bound=10.0,
        rows=2,
        says="KL to the starting policy is {value} nats a token",
        helps=STEADIER,
        reason="the start gave sampled tokens e^-10 of their probability: with a vocabulary of 20,000 that is a guess",
    ),
    Alarm(
        name="entropy_collapsed",
        rule=Level(column="entropy", below=True),
        bound=0.005,
        rows=10,
        says="the policy's entropy is {value} nats a token: it gives one response to a prompt, and explores no more",
        helps="raise {temperature}, lower {optimizer.peak_learning_rate}, or add the regularizer entropy or a higher "
        "upper clip (method dapo)",
        reason="below 0.005 nats fewer than one of a thousand tokens is drawn against the likeliest one; Cui et al. "
        "2025 (The Entropy Mechanism) find that reward gains end as entropy does",
        unless=SOLVED,
    ),
    Alarm(
        name="nothing_right",
        rule=Level(column="pass_rate", below=True),
        bound=0.0,
        rows=20,
        says="no response was right in {rows} steps in a row",
        helps="read why (posttrain samples RUN --wrong); use easier prompts (curate with keep_pass_rate), a stronger "
        "start (sft before rl), "
        "or raise {group_size}; if it was right before, lower {optimizer.peak_learning_rate}",
        reason="without a right response there is nothing to reinforce; 20 steps of the default size are 5,120 samples",
        explained_by=("verifier_failures", "verifier_raises", "all_truncated", "length_collapsed", "entropy_collapsed"),
    ),
    Alarm(
        name="reward_constant",
        rule=Stillness(mean="reward_mean", spread="reward_std"),
        bound=1e-6,
        rows=20,
        says="every response had reward {value} in {rows} steps in a row: there is nothing to learn from",
        helps="use prompts of mixed difficulty (curate with keep_pass_rate), or look at the reward: it may not "
        "depend on the response",
        reason="equal rewards give advantages of 0, and 20 such steps are no chance",
        unless=SOLVED,
        explained_by=(
            "verifier_failures",
            "verifier_raises",
            "all_truncated",
            "length_collapsed",
            "entropy_collapsed",
            "nothing_right",
        ),
    ),
    Alarm(
        name="reward_gamed",
        rule=Parting(up="reward_mean", down="pass_rate"),
        bound=0.1,
        rows=10,
        says="the reward rises while the pass rate fell to {value}, from {best}",
        helps="look at the samples with the highest reward, and lower the weight of the parts that are not verified; "
        "else hold the policy with the regularizer kl",
        reason="means over 20 steps: a tenth of all responses turned wrong while the reward rose "
        "(overoptimisation, Gao et al. 2023)",
    ),
    Alarm(
        name="heldout_fell",
        rule=Parting(up="reward_mean", down="heldout_pass_rate", window=3),
        bound=0.1,
        rows=2,
        says="the reward rises while the pass rate on held-out prompts fell to {value}, from {best}",
        helps="look at the samples with the highest reward; lower the weight of the parts that are not verified, train "
        "on more prompts, or stop earlier: models before the fall are in the checkpoints",
        reason="means over 3 measurements, of 256 responses each by default: 4 standard errors of their difference",
        explained_by=("reward_gamed",),
    ),
    Alarm(
        name="gold_fell",
        rule=Parting(up="reward_mean", down="reward_score", window=10),
        bound=0.05,
        rows=3,
        says="the reward rises while the verifier's score fell to {value}, from {best}",
        helps="stop earlier: models before the fall are in the checkpoints (`on_alarm: rollback` returns to one); else "
        "hold the policy with the regularizer kl, or train the reward model on more pairs",
        reason="means over 10 steps of scores from 0 to 1, of 256 responses each by default: six standard errors of "
        "their difference (overoptimisation of a reward model, Gao et al. 2023); the column is there where reward "
        "`score` is, which has weight 0 if it is only watched",
        explained_by=("reward_gamed", "heldout_fell"),
    ),
    Alarm(
        name="part_alone",
        rule=Alone(prefix="reward_", without=("reward_mean", "reward_std"), beside=("pass_rate", "heldout_pass_rate")),
        bound=5.0,
        rows=10,
        says="the part {part} of the reward rose to {value} from {start} while no other part and no pass rate rose",
        helps="look at the samples with the highest reward and at the report's reward audit; lower the part's weight, "
        "or combine it by gate or minimum so that it does not pay alone",
        reason="means over 20 steps, 5 standard deviations of the first 20: no chance; a part that is worth anything "
        "takes the pass rate along (overoptimisation, Gao et al. 2023)",
        explained_by=("reward_gamed", "heldout_fell", "gold_fell"),
    ),
    Alarm(
        name=PHRASE_REWARDED,
        rule=Level(column="audit_phrase"),
        bound=0.5,
        rows=3,
        says="of responses with one outcome, those with a phrase have the top rewards (difference of shares {value})",
        helps="read the phrase here and in the report's reward audit; let a part that looks at content decide "
        "(combine gate, veto or minimum)",
        reason="half of the top rewards in three audits of up to 256 samples: Fisher's test with Holm's correction "
        "at 1 % stands behind each phrase",
    ),
    Alarm(
        name="length_rewarded",
        rule=Level(column="audit_length_rank"),
        bound=0.8,
        rows=3,
        says="of responses with one outcome, the longer ones have the higher rewards (rank correlation {value})",
        helps="if that is not meant, lower the weight of the part that grows with length, or divide it by length",
        reason="0.8 over three audits of up to 256 samples: length alone orders nearly all rewards",
    ),
)
