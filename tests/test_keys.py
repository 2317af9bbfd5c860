"""Every use of randomness has a stream of its own."""

import itertools

import jax
import numpy as np

from crabjax.keys import _DRAWS, _PURPOSES, draw_up_to, host_generator, run_key


def test_keys_differ_by_seed_round_and_purpose():
    keys = [
        tuple(jax.random.key_data(run_key(*use)).tolist())
        for use in itertools.product((0, 1), _PURPOSES, (0, 1))
    ]
    assert len(set(keys)) == len(keys)


def test_streams_differ_by_draw_and_part_and_from_the_plain_one():
    key = run_key(0, "query", 3)
    streams = [host_generator(key)]
    streams += [host_generator(key, draw, part) for draw in _DRAWS for part in (0, 1)]
    first = [stream.integers(2**62) for stream in streams]
    assert len(set(first)) == len(first)
    assert host_generator(key, "hard").integers(2**62) == first[1 + 2 * _DRAWS.index("hard")]


def test_draws_are_without_replacement():
    rows = np.arange(10, 20)
    found = draw_up_to(host_generator(jax.random.key(0)), rows, 4)
    assert len(set(found.tolist())) == 4
    assert set(found.tolist()) <= set(rows.tolist())
    for count in (None, 99):
        every = draw_up_to(host_generator(jax.random.key(0)), rows, count)
        np.testing.assert_array_equal(np.sort(every), rows)
