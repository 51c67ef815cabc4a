"""Training on the host: one run, what it begins with, and its log."""
