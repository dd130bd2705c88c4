"""Generation by an engine in another process, such as vLLM."""
