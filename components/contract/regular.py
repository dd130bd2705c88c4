"""Regular expressions as parameters: checked when they are parsed, not when they are used."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator


def compiles(text: str) -> str:
    """Return a regular expression unchanged; raise ValueError if it is invalid."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return text


RegularExpression = Annotated[str, AfterValidator(compiles)]
