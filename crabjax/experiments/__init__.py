"""Active learning, simulated: labels are known, and revealed as they are asked for."""
