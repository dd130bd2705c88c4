"""Generation in an engine of another process, such as vLLM."""
