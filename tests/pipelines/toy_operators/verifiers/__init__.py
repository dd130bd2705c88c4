"""No verifiers."""
