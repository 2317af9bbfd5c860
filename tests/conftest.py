"""Strict numerics for every test: no silent dtype or rank promotion, warnings are errors."""

import os

# Before jax, which reads them once: compiling is most of the work here, LLVM's optimisations
# double it, fusions by way of MLIR add half, and no test is about speed.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)
# A process a core is enough.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
