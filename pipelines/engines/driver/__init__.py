"""The small CPU process that runs one stage on a cluster: settles, creates, follows, tries again, cleans up."""
