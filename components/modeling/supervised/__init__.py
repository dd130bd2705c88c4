"""Training on examples, shared by pretrain, sft and replay."""
