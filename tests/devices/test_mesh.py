"""Which mesh is chosen; and everything in ``eight_devices.py``, in a process with eight devices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from crabjax.config import ConfigError, DevicesConfig
from crabjax.devices.mesh import current_mesh, mesh_shape, use_devices


@pytest.mark.parametrize(
    ("asked", "members", "devices", "shape"),
    [
        ((None, None), 25, 1, (1, 1)),
        ((None, None), 5, 8, (8, 1)),
        ((None, None), 2, 8, (2, 4)),
        ((None, None), 5, 10, (5, 2)),
        ((None, None), 1, 4, (1, 4)),
        ((None, None), 25, 8, (8, 1)),
        ((None, 2), 25, 8, (4, 2)),
        ((5, None), 25, 10, (5, 2)),
        ((2, 2), 25, 8, (2, 2)),
    ],
)
def test_members_come_first(asked, members, devices, shape):
    assert mesh_shape(DevicesConfig(*asked), members, devices) == shape


def test_too_few_devices_are_counted():
    with pytest.raises(ConfigError, match=r"ensemble 5 x pool 2 needs 10 devices, found 8"):
        mesh_shape(DevicesConfig(5, 2), 5, 8)
    with pytest.raises(ConfigError, match="all of their 4 devices, found ensemble 2 x pool 1"):
        mesh_shape(DevicesConfig(2, 1), 5, 4, processes=2)


def test_one_device_has_no_mesh():
    with use_devices(DevicesConfig(), 5) as mesh:
        assert mesh is None
        assert current_mesh() is None


@pytest.mark.slow
def test_on_eight_devices():
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider"]
    file = Path(__file__).with_name("eight_devices.py")
    done = subprocess.run(
        [*command, str(file)],
        cwd=file.parents[2],
        env=os.environ | {"JAX_NUM_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
