"""Parameters of the adopt stage."""

from __future__ import annotations

from components.contract.params import Params


class AdoptParams(Params):
    """Adopting has no parameters."""
