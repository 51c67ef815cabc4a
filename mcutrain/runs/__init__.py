"""Training on the host: one run, and many in parallel processes."""
