"""What runs really cost: a record of every attempt at a stage, and their sums in hours and money."""
