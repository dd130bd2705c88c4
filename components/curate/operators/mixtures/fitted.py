"""The shares that a tabulate stage fitted from the results of many mixtures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from components.curate.selection.config import MixtureConfig
from components.curate.selection.context import MIXTURE, SelectionContext

if TYPE_CHECKING:
    from components.curate.params import SourceShare


class FittedConfig(MixtureConfig):
    """Nothing to set: the shares come from input `mixture`."""

    needs = (MIXTURE,)


def fitted(sources: Sequence[SourceShare], context: SelectionContext, *, config: FittedConfig) -> list[float]:
    """Return a share for each source: its domain's in the fitted mixture; sources of one domain divide it by weight.

    Source: MoDoMoDo (Liang et al. 2025, arXiv:2505.24871). Raises InputError for a domain that is not in the mixture.
    """
    from components.measure.fitted_mixture import read_mixture

    (folder,) = context.mixture().values()
    shares = read_mixture(folder)
    domains = {share.domain or "" for share in sources if share.count is None}
    if unknown := sorted(domains - shares.keys()):
        raise InputError(
            f"mixture fitted: {', '.join(map(repr, unknown))} is not in the fitted mixture, which has "
            f"{json.dumps(sorted(shares))}"
        )
    weights = {
        domain: sum(s.weight for s in sources if s.count is None and (s.domain or "") == domain) for domain in domains
    }
    return [shares[s.domain or ""] * s.weight / weights[s.domain or ""] if s.count is None else 0.0 for s in sources]
