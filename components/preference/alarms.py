"""Alarms of preference optimisation: it diverges, or the responses that it should learn become unlikely."""

from __future__ import annotations

from components.contract.alarms import Alarm, Growth
from components.modeling.supervised.alarms import NOT_FINITE

LOWER = "lower {optimizer.peak_learning_rate}, lengthen {optimizer.warmup_steps}, or lower {optimizer.clip_norm}"

PREFERENCE_ALARMS = (
    NOT_FINITE,
    Alarm(
        name="loss_exploded",
        rule=Growth(column="loss"),
        bound=2.0,
        rows=5,
        says="the loss rose to {value} from {best}, and stays there",
        helps=LOWER,
        reason="three times the best, and two above it: the losses of a pair begin at ln 2 = .69 and fall",
    ),
    Alarm(
        name="chosen_unlikely",
        rule=Growth(column="chosen_nll"),
        bound=2.0,
        rows=5,
        says="the chosen responses became unlikely: {value} nats a token, from {best}",
        helps="give the loss a likelihood term (sft), raise its beta, or lower {optimizer.peak_learning_rate}",
        reason="both sides fall together where only their gap counts (Pal et al. 2024, arXiv:2402.13228); two nats a "
        "token make a response of ten tokens unlikely by a factor of 10^8",
        explained_by=("loss_exploded",),
    ),
)
