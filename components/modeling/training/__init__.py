"""Training backends behind one interface: plain torch, replicas, DeepSpeed's ZeRO."""
