"""Several devices: a mesh over ("ensemble", "pool"), and arrays that lie on it.

Members are shared out over ``ensemble``, documents over ``pool``; no program needs a collective.
The mesh is ambient: training, prediction and scores inside ``with use_devices(...)`` are shared
out, and outside it, or on a single device, everything runs as if this file were not there.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from crabjax.config import ConfigError, DevicesConfig

log = logging.getLogger(__name__)

ENSEMBLE, POOL = "ensemble", "pool"

_current: ContextVar[Mesh | None] = ContextVar("mesh", default=None)


@contextlib.contextmanager
def use_devices(config: DevicesConfig, members: int) -> Iterator[Mesh | None]:
    """Shares the work inside the block out over the devices of a configuration.

    Args:
      config: the size of each axis, or None to choose it.
      members: M, the members that are trained together.

    Yields:
      The mesh; None where one device does all the work.

    Raises:
      ConfigError: when there are fewer devices than asked for.
    """
    ensemble, pool = mesh_shape(config, members, jax.device_count(), jax.process_count())
    mesh = None
    if ensemble * pool > 1:
        mesh = jax.make_mesh(
            (ensemble, pool),
            (ENSEMBLE, POOL),
            axis_types=(AxisType.Auto, AxisType.Auto),
            devices=jax.devices()[: ensemble * pool],
        )
        log.info(
            "%d of %d devices: ensemble %d x pool %d; %d members, %d a device",
            *(ensemble * pool, jax.device_count(), ensemble, pool),
            *(members, -(-members // ensemble)),
        )
    before = _current.set(mesh)
    try:
        yield mesh
    finally:
        _current.reset(before)


def current_mesh() -> Mesh | None:
    """The mesh of the surrounding :func:`use_devices`; None for a single device."""
    return _current.get()


def mesh_shape(
    config: DevicesConfig, members: int, devices: int, processes: int = 1
) -> tuple[int, int]:
    """The sizes of both axes.

    Left to choose, members come first: training takes most of the time, and only more devices on
    ``ensemble`` shorten it. The rest goes to ``pool``.
    """
    if config.ensemble is not None:
        ensemble, pool = config.ensemble, config.pool or max(1, devices // config.ensemble)
    else:
        pool = config.pool or 1
        ensemble = _useful(members, max(1, devices // pool))
        pool = config.pool or devices // ensemble
    if ensemble * pool > devices:
        raise ConfigError(
            f"devices: ensemble {ensemble} x pool {pool} needs {ensemble * pool} devices, "
            f"found {devices}"
        )
    if processes > 1 and ensemble * pool < devices:
        raise ConfigError(
            f"devices: several processes must use all of their {devices} devices, "
            f"found ensemble {ensemble} x pool {pool}"
        )
    return ensemble, pool


def _useful(members: int, devices: int) -> int:
    """The smallest divisor of ``devices`` that leaves a device as few members as possible."""
    divisors = [one for one in range(1, devices + 1) if devices % one == 0]
    return min(divisors, key=lambda one: -(-members // one))


def place(mesh: Mesh, array: Any, *axes: Any) -> jax.Array:
    """A host array on the mesh: dimension i cut over ``axes[i]``, the rest on every device.

    Every process has the whole array, and its devices take their part of it.
    """
    array = np.asarray(array)
    sharding = NamedSharding(mesh, PartitionSpec(*axes))
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def place_parts(mesh: Mesh, size: int, part: Callable[[slice], Any]) -> Any:
    """A tree of arrays [size, ...] cut over ``ensemble``, made part by part.

    Args:
      mesh: the devices.
      size: of the first dimension.
      part: gives the tree of one slice of it. No device has to hold more than its own part and
        the one being made.
    """
    sharding = NamedSharding(mesh, PartitionSpec(ENSEMBLE))
    places: Any = sharding.addressable_devices_indices_map((size,))
    parts = [jax.device_put(part(index[0]), device) for device, index in places.items()]

    def joined(*leaves: jax.Array) -> jax.Array:
        shape = (size, *leaves[0].shape[1:])
        return jax.make_array_from_single_device_arrays(shape, sharding, list(leaves))

    return jax.tree.map(joined, *parts)


def fetch(array: Any) -> np.ndarray:
    """The whole of an array, in the memory of every host."""
    if isinstance(array, jax.Array) and not array.is_fully_addressable:
        return np.asarray(multihost_utils.process_allgather(array, tiled=True))
    return np.asarray(array)
