"""How an item's own answer is written as a response, to see whether its verifier accepts it."""

from __future__ import annotations

from components.contract.operator_files.names import travel_name

ASKED = "<answer>{}"
"""The form that all registered verifiers read."""
FORMS = (ASKED, "{}", "<answer>{}</answer>", "#### {}", "\\boxed{{{}}}")
"""Forms that verifiers in users' files may read: they look for the answer in their own way."""


def answer_forms(verifier: str) -> tuple[str, ...]:
    """Return the forms to try, in order, for a verifier of that name."""
    return FORMS if travel_name(verifier) else (ASKED,)
