"""Several runs, or cells of a matrix, side by side."""
