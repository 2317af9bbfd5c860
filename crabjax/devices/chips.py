"""Chips that programs can be compiled for without having one, from the makers' data sheets.

Gigabytes of GPUs are the data sheet's 10^9: what is left of the real ones goes to CUDA itself.
Of TPUs it is what libtpu lets a program use. Clock rates of TPUs follow from the peak: a v5e has
four arrays of 128 x 128 multipliers, a v6e four of 256 x 256, each with two operations a cycle.
"""

from dataclasses import dataclass

from crabjax.files import did_you_mean


class UnknownChipError(ValueError):
    """No chip of this name is in the table."""


@dataclass(frozen=True)
class Chip:
    """One device, as a compiler and an estimate need to know it.

    Attributes:
      name: as on the command line.
      platform: "tpu" or "cuda".
      memory: bytes that a program may use.
      bandwidth: of the memory, bytes a second.
      bfloat16: peak of matrix products, operations a second, without sparsity.
      float32: the same at JAX's default precision: TF32 on GPUs, bfloat16 on TPUs.
      highest: the same with ``Precision.HIGHEST``.
      lanes: float32 instructions a second outside matrix products (GPUs).
      clock: cycles a second (TPUs).
      launch: seconds until a kernel starts (GPUs; a TPU runs a program in one piece).
      target: what the compiler is given: a topology, or the text of a target configuration.
    """

    name: str
    platform: str
    memory: float
    bandwidth: float
    bfloat16: float
    float32: float
    highest: float
    target: str
    lanes: float = 0.0
    clock: float = 0.0
    launch: float = 0.0

    def matmul_peak(self, dtype: str, highest: bool = False) -> float:
        """Operations a second in matrix products of a type as HLO names it."""
        if dtype not in ("f32", "f64"):
            return self.bfloat16
        return self.highest if highest else self.float32


def _gpu(
    name: str,
    sold_as: str,
    *,
    capability: tuple[int, int],
    cores: int,
    lanes_per_core: int,
    gigahertz: float,
    memory: float,
    bandwidth: float,
    cache: int,
    shared_memory: int,
    threads_per_core: int,
    peaks: tuple[float, float, float],
) -> Chip:
    """A GPU and the target configuration of XLA that describes it; sizes of caches in KiB."""
    major, minor = capability
    # Hopper's matrix instructions exist only under its architecture-specific target, sm_90a.
    features = "ACCELERATED_FEATURES" if major >= 9 else "NONE"
    target = f"""
        platform_name: "CUDA"
        device_description_str: "{sold_as}"
        dnn_version_info {{ major: 9 minor: 8 patch: 0 }}
        gpu_device_info {{
          cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {features} }}
          core_count: {cores}
          fpus_per_core: {lanes_per_core}
          clock_rate_ghz: {gigahertz}
          device_memory_size: {memory:.0f}
          memory_bandwidth: {bandwidth:.0f}
          l2_cache_size: {cache * 1024}
          shared_memory_per_core: {shared_memory * 1024}
          shared_memory_per_block: {48 * 1024}
          shared_memory_per_block_optin: {(shared_memory - 1) * 1024}
          registers_per_core_limit: 65536
          registers_per_block_limit: 65536
          threads_per_warp: 32
          threads_per_block_limit: 1024
          threads_per_core_limit: {threads_per_core}
          thread_dim_limit_x: 1024
          thread_dim_limit_y: 1024
          thread_dim_limit_z: 64
          block_dim_limit_x: {2**31 - 1}
          block_dim_limit_y: 65535
          block_dim_limit_z: 65535
        }}
    """
    lanes = cores * lanes_per_core * gigahertz * 1e9
    return Chip(name, "cuda", memory, bandwidth, *peaks, target, lanes=lanes, launch=3e-6)


# Google Cloud's pages of TPU v5e and v6e. HIGHEST takes six passes in bfloat16.
_V5E = Chip("v5e", "tpu", 15.75 * 2**30, 819e9, 197e12, 197e12, 197e12 / 6, "v5e:2x2", clock=1.5e9)
_V6E = Chip(
    "v6e", "tpu", 31.25 * 2**30, 1640e9, 918e12, 918e12, 918e12 / 6, "v6e:2x2", clock=1.75e9
)
# NVIDIA's data sheets and architecture white papers of A100, H100 and GA102; sizes by compute
# capability from the CUDA programming guide. Tensor cores of the RTX 3090 accumulate in float32
# at half the rate that its advertisements give for float16.
_A100 = _gpu(
    "a100",
    "A100 SXM 80 GB",
    capability=(8, 0),
    cores=108,
    lanes_per_core=64,
    gigahertz=1.41,
    memory=80e9,
    bandwidth=2039e9,
    cache=40 * 1024,
    shared_memory=164,
    threads_per_core=2048,
    peaks=(312e12, 156e12, 19.5e12),
)
_H100 = _gpu(
    "h100",
    "H100 SXM 80 GB",
    capability=(9, 0),
    cores=132,
    lanes_per_core=128,
    gigahertz=1.98,
    memory=80e9,
    bandwidth=3350e9,
    cache=50 * 1024,
    shared_memory=228,
    threads_per_core=2048,
    peaks=(989e12, 494e12, 67e12),
)
_RTX3090 = _gpu(
    "rtx3090",
    "GeForce RTX 3090",
    capability=(8, 6),
    cores=82,
    lanes_per_core=128,
    gigahertz=1.695,
    memory=24e9,
    bandwidth=936e9,
    cache=6 * 1024,
    shared_memory=100,
    threads_per_core=1536,
    peaks=(71e12, 35.6e12, 35.6e12),
)
CHIPS = {chip.name: chip for chip in (_V5E, _V6E, _A100, _H100, _RTX3090)}


def find_chip(name: str) -> Chip:
    """The chip of a name.

    Raises:
      UnknownChipError: listing the known names and the nearest one.
    """
    if name in CHIPS:
        return CHIPS[name]
    hint = did_you_mean(name.lower(), CHIPS)
    raise UnknownChipError(f"chip: expected one of {', '.join(CHIPS)}, found {name!r}{hint}")
