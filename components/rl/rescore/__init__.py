"""Recorded responses judged again by another reward: what would have changed, before anything is trained."""
