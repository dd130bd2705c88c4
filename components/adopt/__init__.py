"""The adopt stage: takes a model into a run unchanged."""
