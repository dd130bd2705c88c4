"""Tests of bisection."""
