"""Turns a document into a graph of stages, unrolled and checked."""
