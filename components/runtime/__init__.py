"""What every job runs in: launcher, store, lineage, gates and resume. Imports the contract only."""
