"""Training reads the same documents from a part of the training set as from all of it."""

from pathlib import Path

import numpy as np
import pytest

from crabjax.ensemble import needed_rows
from crabjax.files.store import gather

GENERATOR = np.random.default_rng(0)
INPUTS, LABELS = GENERATOR.integers(0, 99, (50, 6)), GENERATOR.random((50, 3)) < 0.5
ROWS = np.array([[7, 31, 7, 49, -1], [2, 31, -1, -1, -1]], np.int32)
COUNTS, VALIDATION = np.array([4, 2], np.int32), np.array([[3, 7], [0, 31]], np.int32)


@pytest.mark.parametrize("capacity", [7, 20, 49, 50, 1000])
def test_live_rows_and_validation_rows_lead_to_the_same_documents(capacity):
    found = needed_rows(INPUTS, LABELS, ROWS, COUNTS, VALIDATION, capacity)
    assert len(found.inputs) == len(found.labels) == min(capacity, 50)
    for member, count in enumerate(COUNTS):
        for own, given in (
            (found.train_rows[member, :count], ROWS[member, :count]),
            (found.validation_rows[member], VALIDATION[member]),
        ):
            np.testing.assert_array_equal(found.inputs[own], INPUTS[given])
            np.testing.assert_array_equal(found.labels[own], LABELS[given])
    assert found.train_rows.min() >= 0
    assert found.train_rows.max() < len(found.inputs)
    assert found.train_rows.dtype == found.validation_rows.dtype == np.int32


def test_without_validation_documents():
    found = needed_rows(INPUTS, LABELS, ROWS, COUNTS, VALIDATION[:, :0], 5)
    assert found.validation_rows.shape == (2, 0)
    np.testing.assert_array_equal(found.inputs[found.train_rows[1, :2]], INPUTS[[2, 31]])


@pytest.mark.parametrize("mode", ["r", "r+", "c", None])
def test_rows_of_a_file_are_those_of_the_array(tmp_path, mode):
    path, rows = tmp_path / "inputs.npy", GENERATOR.integers(0, 50, 700)
    np.save(path, INPUTS)
    array = np.load(path, mmap_mode=mode)
    if mode == "c":  # changes that are in memory only
        array[3] = 7
    expected = np.array(array)[rows]
    for one in (array, array.view(np.ndarray), array[5:][:20]):
        inside = rows[rows < len(one)]
        np.testing.assert_array_equal(gather(one, inside), np.array(one)[inside])
    np.testing.assert_array_equal(gather(array, rows), expected)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="reads what Linux says")
def test_no_page_of_a_file_stays_in_memory(tmp_path):
    path = tmp_path / "inputs.npy"
    np.save(path, np.zeros((100_000, 100), np.float32))
    mapped = np.load(path, mmap_mode="r")
    gather(mapped, np.arange(0, 100_000, 50))
    entries = Path("/proc/self/smaps").read_text().split(str(path))[1]
    resident = next(line for line in entries.splitlines() if line.startswith("Rss"))
    assert resident.split()[1] == "0"
