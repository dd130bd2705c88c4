"""Regular expressions as parameters: refused where they are written, not where they are used."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator


def compiles(text: str) -> str:
    """Return a regular expression as it is; raise ValueError for what is none."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return text


RegularExpression = Annotated[str, AfterValidator(compiles)]
