"""What makes a run worse: the differences of two recipes or runs, halved until the cause is named."""
