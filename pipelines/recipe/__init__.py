"""A document to a graph of stages, unrolled and checked."""
