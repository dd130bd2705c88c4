"""Deploys all of it to a cloud's cluster, or to one that is there: make deploy, make destroy."""
