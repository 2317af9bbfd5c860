"""A workaround for slow scatters on GPUs, set before JAX starts its backends.

From jaxlib 0.10.2 on, a float32 scatter-add on GPUs is a loop of compare-and-swap instead of an
atomic addition, unless it is large and the GPU a Hopper, which adds four at a time: up to hundreds
of times slower where indices collide (openxla/xla#46225, jax-ml/jax#38806). An option of LLVM's
brings the addition back. It flushes subnormal sums to zero, as every version before did.
``CRABJAX_ATOMICS=off`` leaves it out.
"""

import importlib.metadata
import importlib.util
import os
import sys
import warnings

SWITCH = "CRABJAX_ATOMICS"
FLAG = "--xla_backend_extra_options=-nvptx-allow-ftz-atomics"
# These and no later ones: the option goes away, and an unknown one ends the process.
AFFECTED = ("0.10.2", "0.11.0")
_PLUG_INS = ("jax_cuda12_plugin", "jax_cuda13_plugin")


def use_native_atomics() -> None:
    """Adds the option to ``XLA_FLAGS`` where this jaxlib needs it and a GPU could be used.

    What the user has there stays. Without JAX's CUDA plug-in nothing is changed, so that no other
    backend meets an option it may not know.
    """
    if (
        os.environ.get(SWITCH, "on") == "off"
        or importlib.metadata.version("jaxlib") not in AFFECTED
    ):
        return
    flags = os.environ.get("XLA_FLAGS", "")
    if "nvptx-allow-ftz-atomics" in flags or not any(map(importlib.util.find_spec, _PLUG_INS)):
        return
    if _too_late():
        warnings.warn(
            "JAX was used before crabjax was imported: scatters may be slow on GPUs "
            f"(openxla/xla#46225); import crabjax first, or set XLA_FLAGS={FLAG}",
            stacklevel=3,
        )
        return
    os.environ["XLA_FLAGS"] = f"{flags} {FLAG}".strip()


def _too_late() -> bool:
    if "jax" not in sys.modules:
        return False
    from jax._src import xla_bridge  # no public name for it; only versions in AFFECTED come here

    return xla_bridge.backends_are_initialized()
