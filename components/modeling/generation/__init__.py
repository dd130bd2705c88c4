"""Who draws responses: the native sampler in this process, or an engine such as vLLM in a process of its own.

Imports nothing, because the engine's process reads this package with an environment of its own.
"""
