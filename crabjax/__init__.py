"""Multi-label active learning on text: CRAB and its peers as compiled JAX programs."""
