"""What the reference runtimes of the formats compute, and how ours compares with it."""
