"""Triggers: what is there to be watched, what has changed since the last run, and what started a run.

`listing` > `change` > `seen` (the record in the store) > `record` (what a run says of its trigger).
"""
