"""Shape: which columns of a foreign row hold what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

Kind = Literal["task", "pairs", "labelled", "text"]
Role = Literal[
    "prompt", "input", "messages", "system", "history", "response", "answer", "chosen", "rejected", "label", "text",
    "domain", "weight", "tools",
]  # fmt: skip
"""What a column can be."""


@dataclass(frozen=True)
class Shape:
    """One shape."""

    name: str
    """For people: "TRL preference pairs"."""
    kind: Kind
    columns: Mapping[Role, str]
    """Role -> the column that plays it; a dot reaches into an object."""
    kept: tuple[str, ...] = ()
    """Further columns, which verifiers and rewards get by their names."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Further columns that are not kept -> why."""
    final_answer: bool = False
    """Whether the answer column holds a solution, of which the final answer counts."""
    chat: bool = False
    """Whether what is asked is a list of messages."""

    def described(self) -> str:
        """Return name, columns and what happens to further ones, in a line."""
        roles = sorted(self.columns, key=get_args(Role).index)
        columns = ", ".join(role if self.columns[role] == role else f"{self.columns[role]} as {role}" for role in roles)
        lines = [f"{self.name} ({columns})"]
        if self.kept:
            lines.append(f"extra columns kept: {', '.join(self.kept)}")
        lines += [f"left out: {column} ({why})" for column, why in self.left.items()]
        return "; ".join(lines)
