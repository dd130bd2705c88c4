"""What bonuses for exploration are computed from: how distinct responses are, and memories of earlier ones."""
