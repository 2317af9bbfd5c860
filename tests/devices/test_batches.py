"""Batches run side by side on the cores of a CPU, and in one order on a mesh."""

import threading
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crabjax.devices import batches
from crabjax.devices.batches import in_batches, side_by_side

ROWS = np.arange(22, dtype=np.float32).reshape(11, 2)


@pytest.fixture
def three_cores(monkeypatch):
    monkeypatch.setattr(batches, "usable_cores", lambda: 3)


@pytest.mark.usefixtures("three_cores")
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_come_back_in_order_whichever_batch_is_done_first(axis):
    def double(batch):
        time.sleep(0.03 if batch[0, 0] == 0 else 0)
        return 2 * (batch if axis == 0 else batch[None])

    found = in_batches(double, ROWS, 3, axis)
    np.testing.assert_array_equal(found, 2 * (ROWS if axis == 0 else ROWS[None]))


@pytest.mark.usefixtures("three_cores")
def test_every_core_has_a_batch():
    all_under_way = threading.Barrier(3, timeout=10)  # broken, and an error, if one is missing
    assert list(side_by_side(lambda item: item + 0 * all_under_way.wait(), range(6))) == [*range(6)]


@pytest.mark.usefixtures("three_cores")
def test_batches_share_one_compilation():
    traces = []

    @jax.jit
    def count_traces(batch):
        traces.append(batch.shape)
        time.sleep(0.02)
        return batch

    in_batches(count_traces, ROWS, 2)
    assert traces == [(2, 2)]


def test_on_a_mesh_one_thread_starts_a_batch_before_it_fetches_the_last(monkeypatch):
    events = []
    monkeypatch.setattr(batches, "current_mesh", lambda: "a mesh")
    monkeypatch.setattr(batches, "fetch", lambda batch: record("fetch", batch))

    def record(what, batch) -> Any:
        events.append((what, int(batch[0, 0]), threading.get_ident()))
        return batch

    in_batches(lambda batch: record("start", batch), ROWS[:6], 2)
    assert [event[:2] for event in events] == [
        ("start", 0), ("start", 4), ("fetch", 0), ("start", 8), ("fetch", 4), ("fetch", 8),
    ]  # fmt: skip
    assert {thread for *_, thread in events} == {threading.get_ident()}


def documents(lengths, tokens=16) -> np.ndarray:
    """Word ids [X, T] that tell documents apart; one has a 0 inside."""
    rows = np.arange(1, len(lengths) + 1)[:, None] * (
        np.arange(tokens) < np.array(lengths)[:, None]
    )
    rows[3, 1] = 0
    return rows.astype(np.int32)


@pytest.mark.usefixtures("three_cores")
@pytest.mark.parametrize("axis", [0, 1])
def test_documents_of_like_length_share_a_batch_that_is_no_wider_than_it_must(axis):
    lengths = np.random.default_rng(0).integers(0, 17, 45)
    lengths[:4] = 0, 16, 1, 5
    tokens, seen = documents(lengths), []

    def total(batch) -> Any:
        seen.append(batch.shape)
        found = np.stack([batch.sum(axis=1), batch.max(axis=1)], axis=1)
        return found if axis == 0 else found.T[..., None]

    found = in_batches(total, tokens, 5, axis, cut=True)
    expected = np.stack([tokens.sum(axis=1), tokens.max(axis=1)], axis=1)
    np.testing.assert_array_equal(found, expected if axis == 0 else expected.T[..., None])
    in_order = np.sort(lengths)[::-1][::5]
    expected_widths = [4 * max(1, -(-longest // 4)) for longest in in_order]
    assert sorted(seen) == sorted((5, width) for width in expected_widths)
    assert len(set(seen)) == 4


@pytest.mark.parametrize("rows", [documents([1] * 35), documents([1] * 45).astype(np.float32)])
def test_few_documents_and_vectors_keep_their_width(rows):
    seen = set()
    in_batches(lambda batch: (seen.add(batch.shape), jnp.asarray(batch))[1], rows, 5, cut=True)
    assert seen == {(5, 16)}
