"""Front ends: from what a sensor gives to what a network takes, in integers, in numpy and in C."""
