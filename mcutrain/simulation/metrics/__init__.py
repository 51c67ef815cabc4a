"""How good a network is on the test samples, by what it learns: a file for each kind of output."""
