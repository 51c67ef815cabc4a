"""What a training step costs on a board: memory, flash, instructions; estimated, planned, built."""
