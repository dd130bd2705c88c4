"""What the stages that make datasets share: candidates, checks, difficulty, counts that add up, and the card."""
