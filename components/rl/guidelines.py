"""Remarks on a choice of slots, most from a study of which tricks help where; nothing depends on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from components.contract.display import Role
from components.contract.operator_files.names import plain_name
from components.contract.operators import OperatorSpec
from components.rl.operators.objectives.ppo_clip import PPOClipConfig
from components.rl.params import RLParams
from components.rl.reward_names import part_names, weight_of
from components.rl.slots import CORRECTION, REWARD, SlotSpecs

LONG_BUDGET = 8192
"""Response length in tokens beyond which dropping truncated responses no longer helps; reconstructed."""
VERDICT = "verifier"
"""The reward of right and wrong."""
SOURCE = "(Liu et al. 2025, arXiv:2508.08221)"


def guidelines(params: RLParams, makers: Mapping[str, Sequence[Role]]) -> Iterator[str]:
    """Yield one line for each guideline that the stage violates; each at most once.

    `makers`: roles of the stages that make the inputs, by port; unknown ones get no remark.
    Source: Liu et al. 2025, Tricks or Traps (arXiv:2508.08221). Certain: the direction of each guideline.
    Reconstructed: the conditions under which it is shown, and `LONG_BUDGET`.
    """
    phases = params.phases or (None,)
    yield from dict.fromkeys(line for phase in phases for line in _lines(params, params.slots(phase), makers))


def _lines(params: RLParams, slots: SlotSpecs, makers: Mapping[str, Sequence[Role]]) -> Iterator[str]:
    yield from _uneven(params)
    made_by = set(makers.get("model", ()))
    filters = {spec.name for spec in slots.filters}
    graded = _beside_the_verdict(slots)
    if graded and "dynamic_sampling" not in filters and any(a.name == "group_mean_std" for a in slots.advantages):
        yield (
            f"in a group whose responses differ only in {', '.join(graded)}, group_mean_std makes that difference as "
            f"large as one between right and wrong; group_mean_batch_std or group_mean does not {SOURCE}"
        )
    if slots.rollout.name == "group_ahead" and all(spec.name != CORRECTION for spec in slots.advantages):
        yield (
            f"group_ahead without {CORRECTION} among the advantages learns from what older weights drew as if it were "
            "new (Noukhovitch et al. 2024, arXiv:2410.18252)"
        )
    if slots.objective.name == "ppo_clip":
        yield from _clip_lines(params, slots.objective, made_by)
    if "drop_truncated" in filters and params.max_new_tokens > LONG_BUDGET:
        limit = f"{params.max_new_tokens:,} tokens"
        yield f"drop_truncated helps short and medium responses, not those of up to {limit} {SOURCE}"


def _uneven(params: RLParams) -> Iterator[str]:
    """Yield a remark on minibatches that do not divide the prompts of a step."""
    for phase in params.phases or (None,):
        prompts = phase.prompts_per_step if phase and phase.prompts_per_step else params.prompts_per_step
        if params.minibatches > prompts:
            yield (
                f"minibatches: {params.minibatches} of {prompts} prompts leaves some without a prompt, since groups "
                f"are kept whole; write minibatches: {prompts} or less"
            )
        elif prompts % params.minibatches:
            yield (
                f"minibatches: {params.minibatches} does not divide {prompts} prompts a step, so updates are of "
                f"{prompts // params.minibatches} and {prompts // params.minibatches + 1} prompts"
            )


def _beside_the_verdict(slots: SlotSpecs) -> list[str]:
    """Return the parts that are added to a verdict: neither those that are only watched, nor those that gate."""
    bounds = [spec.resolve(REWARD) for spec in slots.rewards]
    gates = set(slots.combine.settings.get("by", ())) if slots.combine.name in ("gate", "constrained") else set()
    added = {name for name, bound in zip(part_names(bounds), bounds, strict=True) if weight_of(bound)} - gates
    # without a verdict a graded reward is what is to be learned
    return [plain_name(name) for name in part_names(bounds) if name in added - {VERDICT}] if VERDICT in added else []


def _clip_lines(params: RLParams, objective: OperatorSpec, made_by: set[Role]) -> Iterator[str]:
    config = PPOClipConfig.model_validate(objective.settings)
    several_updates = params.minibatches * params.epochs > 1  # on policy no ratio reaches a clip
    if several_updates and made_by == {Role.TRAINING} and config.clip_high <= config.clip_low:
        yield f"an aligned model explores more with a wider upper clip, such as clip_high 0.28 {SOURCE}"
    if made_by == {Role.PRETRAINING} and config.denominator in ("responses", "groups"):
        yield f"a base model learns better from a mean over tokens than from denominator {config.denominator} {SOURCE}"
