"""The verifier of items without an answer: it judges nothing."""

from __future__ import annotations

from components.contract.params import Params
from components.tasks.item import Item
from components.tasks.verdict import BrokenItem, Verdict


class UnlabelledConfig(Params):
    """No settings."""


def unlabelled(item: Item, response: str, *, config: UnlabelledConfig) -> Verdict:
    """Judge nothing: the item has no answer. Stage rl trains on such prompts with rewards that read no outcomes.

    Any other stage counts its responses as failed verifications.
    """
    raise BrokenItem("it is unlabelled: there is no answer to verify against")
