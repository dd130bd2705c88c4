"""Drawing responses: the native sampler in this process, or an engine such as vLLM in its own process.

Imports nothing, because the engine's process imports this package in another environment.
"""
