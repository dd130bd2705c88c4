"""Alarms of stages that train on given responses: the loss is not finite, explodes or stays above any guess."""

from __future__ import annotations

from components.contract.alarms import Alarm, Growth, Level, NotFinite

NOT_FINITE = Alarm(
    name="not_finite",
    rule=NotFinite(columns=("loss", "grad_norm")),
    bound=0,
    rows=1,
    says="{value} became infinite or not a number",
    helps="lower {optimizer.peak_learning_rate}, lengthen {optimizer.warmup_steps}, or lower {optimizer.clip_norm}",
    reason="one such value in the gradient is in every weight after the update",
)

SUPERVISED_ALARMS = (
    NOT_FINITE,
    Alarm(
        name="loss_exploded",
        rule=Growth(column="loss"),
        bound=2.0,
        rows=5,
        says="the loss rose to {value} nats a token, from {best}, and stays there",
        helps="lower {optimizer.peak_learning_rate}, lengthen {optimizer.warmup_steps}, or lower {optimizer.clip_norm}",
        reason="two nats above the best, and three times it: batches differ by less, and spikes are shorter",
    ),
    Alarm(
        name="loss_above_guessing",
        rule=Level(column="loss"),
        bound=15.0,
        rows=5,
        says="the loss is {value} nats a token, worse than guessing",
        helps="lower {optimizer.peak_learning_rate}, or lengthen {optimizer.warmup_steps}",
        reason="an even guess over a vocabulary of a million tokens costs ln(10^6) = 13.8 nats",
        explained_by=("loss_exploded",),
    ),
)
