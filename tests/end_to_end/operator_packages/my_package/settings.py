"""Settings of the package's operators."""

from pydantic import Field

from components.rl.configs import RewardConfig


class PoliteConfig(RewardConfig):
    """How much a polite word is worth."""

    bonus: float = Field(default=0.1, ge=0)
    """Added for each polite word."""
