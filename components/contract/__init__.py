"""The ground that every floor stands on: artifacts, components, jobs and the operator registry.

Standard library and pydantic only, so that planning and DAG parsing stay instant.
"""
