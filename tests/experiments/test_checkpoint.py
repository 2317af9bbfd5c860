"""Saved rounds: kept, restored, and safe against damage and a full disk."""

import resource

import numpy as np
import pytest

from crabjax.experiments.checkpoint import CheckpointError, Checkpoints, Saved


def saved(number, size=50):
    labelled = np.zeros((2, size), bool)
    labelled[:, : number + 1] = True
    return Saved(number, {"labelled": labelled}, [{"round": r, "f1": 0.1 + 0.2} for r in range(3)])


@pytest.fixture
def checkpoints(tmp_path):
    with Checkpoints(tmp_path / "checkpoints") as opened:
        yield opened


def test_restores_the_newest_and_keeps_two(tmp_path, checkpoints):
    like = saved(0).arrays
    assert checkpoints.restore(like) is None
    for number in range(4):
        checkpoints.save(saved(number))
    with Checkpoints(tmp_path / "checkpoints") as again:
        found = again.restore(like)
    assert found.round == 3
    assert found.records == saved(3).records
    np.testing.assert_array_equal(found.arrays["labelled"], saved(3).arrays["labelled"])
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["2", "3"]


def test_a_round_can_be_saved_again(checkpoints):
    checkpoints.save(saved(0))
    checkpoints.save(saved(0))
    assert checkpoints.restore(saved(0).arrays).round == 0


@pytest.mark.parametrize("damage", [b"", b"not what was written"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path, checkpoints, damage, caplog):
    checkpoints.save(saved(0))
    checkpoints.save(saved(1))
    for file in (tmp_path / "checkpoints" / "1").rglob("*"):
        if file.is_file():
            file.write_bytes(damage)
    with Checkpoints(tmp_path / "checkpoints") as again:
        assert again.restore(saved(0).arrays).round == 0
    assert "skipped a damaged checkpoint, round 1" in caplog.text


def test_a_byte_changed_in_the_metadata_falls_back_to_the_one_before(tmp_path, checkpoints, caplog):
    checkpoints.save(saved(0))
    checkpoints.save(saved(1))
    metadata = tmp_path / "checkpoints" / "1" / "_CHECKPOINT_METADATA"
    metadata.write_bytes(metadata.read_bytes().replace(b"item_handlers", b"item_handless"))
    with Checkpoints(tmp_path / "checkpoints") as again:
        assert again.restore(saved(0).arrays).round == 0
    assert "skipped a damaged checkpoint, round 1" in caplog.text


def test_metadata_that_cannot_be_parsed_is_named_and_not_printed(tmp_path, checkpoints, caplog):
    checkpoints.save(saved(0))
    metadata = tmp_path / "checkpoints" / "0" / "_CHECKPOINT_METADATA"
    metadata.write_bytes(metadata.read_bytes().replace(b'"metrics"', b'"metrics', 1))
    with (
        Checkpoints(tmp_path / "checkpoints") as again,
        pytest.raises(CheckpointError, match=r"round 0: _CHECKPOINT_METADATA .*--fresh"),
    ):
        again.restore(saved(0).arrays)
    assert [record.name for record in caplog.records] == ["crabjax.experiments.checkpoint"]


def test_rounds_after_a_damaged_one_are_saved_again(tmp_path):
    with Checkpoints(tmp_path / "checkpoints", keep=5) as checkpoints:
        for number in range(4):
            checkpoints.save(saved(number))
    for number in (2, 3):
        for file in (tmp_path / "checkpoints" / str(number)).rglob("*"):
            if file.is_file():
                file.write_bytes(b"")
    with Checkpoints(tmp_path / "checkpoints", keep=5) as checkpoints:
        assert checkpoints.restore(saved(0).arrays).round == 1
        checkpoints.save(saved(2))
        assert checkpoints.restore(saved(0).arrays).round == 2


def test_nothing_readable_is_an_error_that_says_what_to_do(checkpoints):
    checkpoints.save(saved(0))
    with pytest.raises(
        CheckpointError,
        match=r"expected labelled: bool\[2, 9\], found labelled: bool\[2, 50\].*--fresh",
    ):
        checkpoints.restore({"labelled": np.zeros((2, 9), bool)})


def test_a_round_of_an_earlier_form_is_read_as_it_is(checkpoints):
    checkpoints.save(saved(0))
    newer = {"labelled": np.zeros((2, 9), np.int32), "more": np.zeros(3)}
    found = checkpoints.restore(newer, saved(0).arrays)
    assert found.arrays.keys() == {"labelled"}
    np.testing.assert_array_equal(found.arrays["labelled"], saved(0).arrays["labelled"])
    with pytest.raises(CheckpointError, match=r"expected labelled: int32.*more: float64"):
        checkpoints.restore(newer)


def test_every_digit_of_a_float64_comes_back(checkpoints):
    arrays = {"labelled": np.zeros((2, 9), np.int32), "more": np.array([0.1, 1e-300])}
    checkpoints.save(Saved(0, arrays, []))
    found = checkpoints.restore(arrays).arrays["more"]
    assert found.dtype == np.float64
    assert found.tolist() == [0.1, 1e-300]


def test_a_full_disk_leaves_the_previous_round(tmp_path, checkpoints):
    checkpoints.save(saved(0, 200_000))
    noise = Saved(1, {"labelled": np.random.default_rng(0).random((2, 200_000)) < 0.5}, [])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(CheckpointError, match=r"round 1 could not be saved.*earlier rounds"):
            checkpoints.save(noise)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with Checkpoints(tmp_path / "checkpoints") as again:
        assert again.restore(noise.arrays).round == 0
