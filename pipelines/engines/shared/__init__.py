"""Code that several engines share: approvals, pods, the environment of a job, the end of a run."""
