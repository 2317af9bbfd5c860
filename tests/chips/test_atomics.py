"""A float32 scatter-add on GPUs, with the workaround and without it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import crabjax, jax, jax.numpy as jnp
from crabjax.devices.compile_for import compile_for
shapes = [((5000, 64), jnp.float32), ((1280,), jnp.int32), ((1280, 64), jnp.float32)]
arguments = [jax.ShapeDtypeStruct(*one) for one in shapes]
for chip in ("rtx3090", "a100", "h100"):
    report = compile_for(chip, lambda table, rows, add: table.at[rows].add(add), *arguments)
    print(chip, report.compare_and_swaps > 0, len(report.scatters))
"""


@pytest.mark.parametrize("switch", ["on", "off"])
def test_scatters_add_natively_unless_switched_off(switch):
    environment = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    environment |= {"CRABJAX_ATOMICS": switch, "JAX_PLATFORMS": "cpu"}
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(
        command, env=environment, cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    swaps = switch == "off"
    assert done.stdout.splitlines() == [f"{chip} {swaps} 1" for chip in ("rtx3090", "a100", "h100")]
