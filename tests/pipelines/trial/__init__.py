"""Tests of pipelines/trial."""
