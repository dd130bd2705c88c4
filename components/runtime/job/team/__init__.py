"""The ranks of a job as its first rank sees them: signs of life, last words, and which failure came first."""
