"""The audit_reward stage: what responses of known worth earn from a reward, before anything is trained on it."""
