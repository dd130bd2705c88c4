"""Parameters of the adopt stage."""

from __future__ import annotations

from components.contract.component import Params


class AdoptParams(Params):
    """Adopting has no parameters."""
