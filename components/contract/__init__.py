"""The contracts that every layer builds on: artifacts, components, jobs and the operator registry.

Standard library and pydantic only, so that planning and DAG parsing stay instant.
"""
