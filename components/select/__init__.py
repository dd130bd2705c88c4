"""The select stage: choose one of many models on a development set."""
