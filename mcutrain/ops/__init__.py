"""The operators: one file per family, each with its type rule, meaning, gradient and C call."""
