"""Training of reward models: a network that scores texts, or the steps of one."""
