"""Each thing that is put in and taken out again: what terraform makes, images, charts, manifests, Secrets."""
