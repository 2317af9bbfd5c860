"""What only NVIDIA GPUs get: kernels of our own, checked against the plain formulation."""
