"""How a scheme is chosen: what training gains, what it costs, and the best of both that fits."""
