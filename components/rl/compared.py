"""Further models whose logits an operator compares with the policy's: they need weights here, and the same tokens.

An operator's config names the ports in its class variable `compares`. Does not import torch: checking recipes imports
it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.backends import GROUPS, Backends
from components.contract.component import Given
from components.contract.operators import Bound
from components.contract.params import Params

if TYPE_CHECKING:
    from components.modeling.models.policy import Policy
    from components.modeling.serving.further import FurtherModel

TOKENIZER = "tokenizer.json"


def compared_by(config: Params) -> tuple[str, ...]:
    """Return the ports whose models an operator with this config compares the policy with."""
    found: tuple[str, ...] = getattr(type(config), "compares", ())
    return found


def compared_ports(operators: Iterable[Bound]) -> dict[str, str]:
    """Return port -> an operator that compares the policy with its models."""
    return {port: f"{bound.slot} operator {bound.name!r}" for bound in operators for port in compared_by(bound.config)}


def refuses_models(operators: Iterable[Bound], given: Mapping[str, Sequence[Given | None]]) -> Iterator[str]:
    """Yield a line for each model from outside the run that cannot be compared with the policy."""
    students = [made for made in given.get("model", ()) if made is not None and made.folder is not None]
    for port, user in compared_ports(operators).items():
        for made in filter(None, given.get(port, ())):
            if made.is_endpoint:
                yield (
                    f"{user} compares the logits of input {port!r}, and {made.uri!r} is a server, which gives none; "
                    "name a model of the run, or a folder"
                )
            for student in students:
                if (difference := _difference(student.folder, made.folder)) is not None:
                    yield f"{user} compares logits, and {made.uri!r} has another tokenizer than the model: {difference}"


def refuses_backends(operators: Iterable[Bound], backends: Backends) -> Iterator[str]:
    """Yield a line for passes that are divided over ranks, where an operator compares logits."""
    users = dict.fromkeys(compared_ports(operators).values())
    for name in GROUPS if users else ():
        if getattr(backends, name) > 1:
            yield f"{', '.join(users)}: no pass of policy and teacher is divided over ranks; set {name}: 1"


def check_compared(
    operators: Iterable[Bound], policy: Policy, further: Mapping[str, Sequence[FurtherModel]], backends: Backends
) -> None:
    """Load the models that operators compare the policy with; raise InputError for one that cannot be."""
    from components.contract.errors import InputError
    from components.modeling.supervised.distillation import check_tokenizers
    from components.rl.step.teaching import policy_of

    chosen = list(operators)
    for line in refuses_backends(chosen, backends):
        raise InputError(f"rl: {line}")
    for port in compared_ports(chosen):
        for model in further[port]:
            check_tokenizers(policy.tokenizer, policy_of(model).tokenizer)


def _difference(own: Path | None, other: Path | None) -> str | None:
    """Return how the tokens of two model folders differ, in words; None if they do not, or where nobody can tell."""
    if own is None or other is None:
        return None
    ids, others = _vocabulary(own / TOKENIZER), _vocabulary(other / TOKENIZER)
    if ids is None or others is None or ids == others:
        return None
    differing = (token for token in ids.keys() | others.keys() if ids.get(token) != others.get(token))
    token = min(differing, key=str)  # a hostile vocabulary has numbers among its tokens
    return f"token {token!r} is {_id(ids, token)} in the model and {_id(others, token)} in the other"


def _id(vocabulary: Mapping[str, int], token: str) -> str:
    return f"id {vocabulary[token]}" if token in vocabulary else "absent"


def _vocabulary(path: Path) -> dict[str, int] | None:
    """Return token -> id of a tokenizer.json, or None where it is not there or of another form."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = content["model"]["vocab"]
        ids = dict(found) if isinstance(found, dict) else {piece[0]: at for at, piece in enumerate(found)}
        ids |= {added["content"]: added["id"] for added in content.get("added_tokens") or ()}
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None
    return ids
