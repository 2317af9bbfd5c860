"""Compiling for absent chips, as far as it goes without their compilers."""
# ruff: noqa: E501  (lines of compiled text)

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crabjax.devices import hlo
from crabjax.devices.atomics import FLAG
from crabjax.devices.chips import CHIPS, UnknownChipError, find_chip
from crabjax.devices.compile_for import MissingPlugInError, chip_devices, compile_for
from crabjax.devices.estimate import Cost, estimate, slowest

# A program as the compiler for GPUs writes it, cut down: a loop of 7 around one of unknown length,
# a branch, a scatter inside a fusion, a matrix product, a collective.
TEXT = """HloModule jit_f, is_scheduled=true

%fused_add (param_0: f32[8,128], param_1: f32[8,128]) -> f32[8,128] {
  %param_0 = f32[8,128]{1,0} parameter(0)
  %param_1 = f32[8,128]{1,0} parameter(1)
  %exponential.1 = f32[8,128]{1,0} exponential(%param_0)
  ROOT %add.1 = f32[8,128]{1,0} add(%exponential.1, %param_1)
}

%fused_scatter (p0: f32[1000,64], p1: s32[20,1], p2: f32[20,64]) -> f32[1000,64] {
  %p0 = f32[1000,64]{1,0} parameter(0)
  %p1 = s32[20,1]{1,0} parameter(1)
  %p2 = f32[20,64]{1,0} parameter(2)
  ROOT %scatter.1 = f32[1000,64]{1,0} scatter(%p0, %p1, %p2), to_apply=%add
}

%inner_condition (arg: (s32[], f32[8,128])) -> pred[] {
  %arg = (s32[], f32[8,128]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%arg), index=0
  %most = s32[] get-tuple-element(%arg), index=0
  ROOT %compare.1 = pred[] compare(%i, %most), direction=LT
}

%outer_condition (arg.1: (s32[], f32[8,128])) -> pred[] {
  %arg.1 = (s32[], f32[8,128]{1,0}) parameter(0)
  %i.1 = s32[] get-tuple-element(%arg.1), index=0
  %seven = s32[] constant(7)
  ROOT %compare.2 = pred[] compare(%i.1, %seven), direction=LT
}

%inner_body (arg.2: (s32[], f32[8,128])) -> (s32[], f32[8,128]) {
  %arg.2 = (s32[], f32[8,128]{1,0}) parameter(0)
  %x.2 = f32[8,128]{1,0} get-tuple-element(%arg.2), index=1
  %fusion.1 = f32[8,128]{1,0} fusion(%x.2, %x.2), kind=kLoop, calls=%fused_add
  ROOT %tuple.2 = (s32[], f32[8,128]{1,0}) tuple(%arg.2, %fusion.1)
}

%outer_body (arg.3: (s32[], f32[8,128])) -> (s32[], f32[8,128]) {
  %arg.3 = (s32[], f32[8,128]{1,0}) parameter(0)
  ROOT %while.1 = (s32[], /*index=1*/f32[8,128]{1,0}) while(%arg.3), condition=%inner_condition, body=%inner_body, metadata={op_name="jit(f)/inner"}
}

%cheap (a.4: f32[8,128]) -> f32[8,128] {
  ROOT %a.4 = f32[8,128]{1,0} parameter(0)
}

%dear (a.5: f32[8,128]) -> f32[8,128] {
  %a.5 = f32[8,128]{1,0} parameter(0)
  ROOT %copy.1 = f32[8,128]{1,0} copy(%a.5)
}

ENTRY %main (a: (s32[], f32[8,128]), b: bf16[512,256], c: bf16[256,1024]) -> f32[8,128] {
  %a = (s32[], f32[8,128]{1,0}) parameter(0)
  %b = bf16[512,256]{1,0} parameter(1)
  %c = bf16[256,1024]{1,0} parameter(2)
  %t = f32[1000,64]{1,0} parameter(3)
  %rows = s32[20,1]{1,0} parameter(4)
  %g = f32[20,64]{1,0} parameter(5)
  %p = pred[] parameter(6)
  %while.2 = (s32[], f32[8,128]{1,0}) while(%a), condition=%outer_condition, body=%outer_body, metadata={op_name="jit(f)/outer"}
  %gemm = (bf16[512,1024]{1,0}, s8[4096]{0}) custom-call(%b, %c), custom_call_target="__cublas$gemm", backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}
  %fusion.2 = f32[1000,64]{1,0} fusion(%t, %rows, %g), kind=kInput, calls=%fused_scatter
  %x = f32[8,128]{1,0} get-tuple-element(%while.2), index=1
  %sum = f32[8,128]{1,0} all-reduce(%x), to_apply=%add
  ROOT %branch = f32[8,128]{1,0} conditional(%p, %sum, %sum), branch_computations={%cheap, %dear}
}
"""


def test_loops_by_trip_count_and_what_they_run_over():
    outer, inner = hlo.loops(hlo.parse(TEXT), {"members": 7, "tokens": 256})
    assert (outer.trips, outer.times, outer.over) == (7, 1, "members")
    assert (inner.trips, inner.times, inner.over) == (None, 7, "")
    assert (str(outer), str(inner)) == ("7 members", "? (x7)")
    (outer, _) = hlo.loops(hlo.parse(TEXT), {"a": 7, "b": 1})
    assert outer.over == "a"
    known = TEXT.replace(
        'op_name="jit(f)/inner"}', '}, backend_config={"known_trip_count":{"n":"35"}}'
    )
    assert hlo.loops(hlo.parse(known), {"members": 7, "heads": 5})[1].over == "heads x members"


def test_scatters_and_collectives():
    module = hlo.parse(TEXT)
    (scatter,) = hlo.scatters(module, {"words": 1000})
    assert str(scatter) == "f32[20,64] into f32[1000,64]"
    assert scatter.whole_vocabulary
    for axes, whole in (
        ({"words": 1001}, False),
        ({}, False),
        ({"words": 200, "members": 5}, True),
        ({"words": 201, "members": 5}, False),
        ({"words": 201, "members": 3}, True),
    ):
        assert hlo.scatters(module, axes)[0].whole_vocabulary == whole
    assert hlo.collectives(module) == ["all-reduce f32[8,128]"]


def test_shapes_are_read():
    arrays = hlo.arrays_of("(bf16[2,3]{1,0:T(8,128)S(1)}, /*index=1*/pred[], f8e4m3fn[4]{0})")
    assert [str(one) for one in arrays] == ["bf16[2,3]", "pred[]", "f8e4m3fn[4]"]
    assert [one.bytes for one in arrays] == [12, 1, 4]
    assert [one.on_chip for one in arrays] == [True, False, False]
    with pytest.raises(ValueError, match="no ENTRY computation"):
        hlo.parse("HloModule nothing")


def test_what_the_compiler_for_this_machine_writes_is_read():
    def total(values):
        return jax.lax.scan(lambda carry, one: (jnp.tanh(carry @ one), None), values[0], values)[0]

    text = jax.jit(total).lower(jnp.ones((11, 16, 16))).compile().as_text()
    module = hlo.parse(text or "")
    assert "11 steps" in [str(loop) for loop in hlo.loops(module, {"steps": 11})]
    assert module.root(module.entry).arrays[0].sizes == (16, 16)
    assert estimate(module, CHIPS["h100"]).kernels >= 11


def test_the_estimate_of_a_gpu_adds_up_by_hand():
    chip = CHIPS["a100"]
    square = 4 * 8 * 128
    in_loop = max(3 * square / chip.bandwidth, (8 + 1) * 8 * 128 / chip.lanes)
    product = max(
        2 * 512 * 1024 * 256 / 312e12,
        (2 * (512 * 256 + 256 * 1024 + 512 * 1024) + 4096) / chip.bandwidth,
    )
    scatter = (3 * 4 * 20 * 64 + 4 * 20 + 4 * 20 * 64) / chip.bandwidth
    others = 2 * 2 * square / chip.bandwidth  # the collective, and the dearer branch
    found = estimate(hlo.parse(TEXT), chip)
    assert found.kernels == 7 + 1 + 1 + 1 + 1
    assert found.opaque == 0
    expected = 7 * in_loop + product + scatter + others + found.kernels * 3e-6
    assert found.seconds == pytest.approx(expected)


def test_the_estimate_of_a_tpu_takes_the_compilers_cycles():
    line = 'fusion(%x.2, %x.2), kind=kLoop, calls=%fused_add, backend_config={"estimated_cycles":'
    text = TEXT.replace("fusion(%x.2, %x.2), kind=kLoop, calls=%fused_add", line + '"3000"}')
    chip = CHIPS["v5e"]
    with_cycles, without = (estimate(hlo.parse(one), chip) for one in (text, TEXT))
    bytes_in_loop = 7 * 3 * 4 * 8 * 128 / 819e9
    change = with_cycles.seconds - without.seconds
    assert change == pytest.approx(7 * 3000 / 1.5e9 - bytes_in_loop)
    assert with_cycles.kernels == without.kernels
    assert with_cycles.opaque == 1  # what a matrix product of cuBLAS would be to a TPU


def test_a_slice_of_a_slice_reads_no_more_than_it_takes():
    text = """HloModule jit_g

%fused (p: f32[64,4,1000], i: s32[]) -> f32[1000] {
  %p = f32[64,4,1000]{2,1,0} parameter(0)
  %i = s32[] parameter(1)
  %zero = s32[] constant(0)
  %four = f32[1,4,1000]{2,1,0} dynamic-slice(%p, %i, %zero, %zero), dynamic_slice_sizes={1,4,1000}
  %flat = f32[4000]{0} bitcast(%four)
  %one = f32[1000]{0} slice(%flat), slice={[1000:2000]}
  ROOT %twice = f32[1000]{0} add(%one, %one)
}

ENTRY %main (a: f32[64,4,1000], i: s32[]) -> f32[1000] {
  %a = f32[64,4,1000]{2,1,0} parameter(0)
  %i.1 = s32[] parameter(1)
  ROOT %fusion = f32[1000]{0} fusion(%a, %i.1), kind=kLoop, calls=%fused
}
"""
    chip = CHIPS["h100"]
    read_and_written = 4 * (1000 + 1 + 1000)
    seconds = read_and_written / chip.bandwidth + chip.launch
    assert estimate(hlo.parse(text), chip).seconds == pytest.approx(seconds)


def test_where_the_time_goes():
    module, chip = hlo.parse(TEXT), CHIPS["a100"]
    found = slowest(module, chip)
    assert sum(seconds for seconds, _ in found) == pytest.approx(estimate(module, chip).seconds)
    assert found == tuple(sorted(found, reverse=True))
    assert found[0][1] == "fusion f32[8,128]"  # seven launches


def test_costs_add_and_multiply():
    one = Cost(1.0, 2, 4)
    assert one.plus(one) == one.times(2) == Cost(2.0, 4, 8)


def test_an_unknown_chip_lists_the_known_ones():
    with pytest.raises(UnknownChipError, match=r"v5e, v6e, a100, .*found 'RTX3080'; did you mean"):
        find_chip("RTX3080")
    with pytest.raises(UnknownChipError, match=r"found 'zzz'$"):
        compile_for("zzz", jnp.sin)


# Peaks of plain float32 on the data sheets: one multiply-add a lane and cycle.
PLAIN = {"a100": 19.5e12, "h100": 67e12, "rtx3090": 35.6e12}


@pytest.mark.parametrize("chip", CHIPS.values(), ids=list(CHIPS))
def test_the_table_of_chips_is_consistent(chip):
    assert find_chip(chip.name) is chip
    assert chip.highest < chip.float32 <= chip.bfloat16 or chip.name == "rtx3090"
    if chip.platform == "tpu":
        width = {"v5e": 128, "v6e": 256}[chip.name]
        np.testing.assert_allclose(4 * width**2 * 2 * chip.clock, chip.bfloat16, rtol=0.01)
    else:
        np.testing.assert_allclose(2 * chip.lanes, PLAIN[chip.name], rtol=0.01)
        assert f"memory_bandwidth: {chip.bandwidth:.0f}" in chip.target
    assert chip.matmul_peak("bf16") == chip.bfloat16
    assert chip.matmul_peak("f32", highest=True) == chip.highest


@pytest.mark.parametrize(("chip", "package"), [("v5e", "libtpu"), ("a100", "jax_cuda12_plugin")])
def test_a_missing_compiler_names_the_extra(chip, package, monkeypatch):
    for name in ("libtpu", "jax_cuda12_plugin", "jax_cuda13_plugin"):
        monkeypatch.setitem(sys.modules, name, None)
    chip_devices.cache_clear()
    with pytest.raises(MissingPlugInError, match=rf"{package}.*pip install 'crabjax\[chips\]'"):
        compile_for(chip, jnp.sin, jax.ShapeDtypeStruct((2,), jnp.float32))


ROOT = Path(__file__).resolve().parents[2]
PRINT_FLAGS = "import os, crabjax, jax; jax.numpy.ones(2).sum(); print(os.environ['XLA_FLAGS'])"


def flags_after_import(tmp_path, code=PRINT_FLAGS, plug_in=True, **environment):
    """``XLA_FLAGS`` of a process that imports crabjax, where JAX has a CUDA plug-in or not."""
    if plug_in:
        (tmp_path / "jax_cuda12_plugin").mkdir()
        (tmp_path / "jax_cuda12_plugin" / "__init__.py").touch()
    environment = {
        "PATH": "", "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_enable_fast_math=false",
        "PYTHONPATH": f"{ROOT}:{tmp_path}", **environment,
    }  # fmt: skip
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_native_atomics_are_asked_for_beside_the_users_flags(tmp_path):
    assert flags_after_import(tmp_path) == f"--xla_cpu_enable_fast_math=false {FLAG}"


def test_native_atomics_are_not_asked_for_twice(tmp_path):
    assert flags_after_import(tmp_path, XLA_FLAGS=FLAG) == FLAG


def test_native_atomics_can_be_switched_off(tmp_path):
    flags = flags_after_import(tmp_path, CRABJAX_ATOMICS="off")
    assert flags == "--xla_cpu_enable_fast_math=false"


def test_too_late_for_native_atomics_is_said(tmp_path):
    code = (
        "import os, warnings, jax; jax.devices()\n"
        "with warnings.catch_warnings(record=True) as said:\n"
        "    warnings.simplefilter('always')\n"
        "    import crabjax\n"
        "print(os.environ['XLA_FLAGS'], '46225' in str(said[0].message))"
    )
    assert flags_after_import(tmp_path, code) == "--xla_cpu_enable_fast_math=false True"
