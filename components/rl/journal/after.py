"""What a line of the journal says of the state behind its step: witnesses of all that the next step starts from."""

from __future__ import annotations

from typing import Any

from components.rl.journal.lines import digest, weights_digest
from components.rl.step.loop import Loop


def state_after(loop: Loop) -> dict[str, Any]:
    """Return digests of the trained weights and the random generator, and the versions of the draws that wait.

    Of a sharded policy no process has the weights, and the digest is empty: what they draw next shows them.
    """
    trained = loop.policies.trained
    sharded = trained.is_sharded or bool(trained.cuts)
    return {
        "weights": "" if sharded else weights_digest(trained.trainable()),
        "generator": digest(loop.generator.get_state()),
        "waiting": loop.ahead.versions,
    }
