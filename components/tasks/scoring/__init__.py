"""Functions that run inside the sandbox, from plain JSON to plain JSON: they compute values and give no verdict."""
