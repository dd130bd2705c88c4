"""The code that a stage runs: found without importing it, followed through its imports, and hashed."""
