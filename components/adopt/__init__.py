"""The adopt stage: takes a model into a run as it is."""
