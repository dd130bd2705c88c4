"""What operators of an evaluation are given, and what they return."""
