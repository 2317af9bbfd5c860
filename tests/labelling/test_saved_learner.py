"""Learners on disk: those of earlier versions are read."""

import numpy as np

from crabjax.labelling.saved_learner import SavedLearner, read_saved, write_saved


def test_layers_that_were_saved_one_by_one_are_read_side_by_side(tmp_path):
    layers = {str(layer): {"bias": np.full((3, 2), layer, np.float32)} for layer in range(11)}
    embeddings = np.ones((3, 5, 2), np.float32)
    old = {"encoder": {"layers": layers, "words": embeddings}, "head": {"bias": np.zeros((3, 4))}}
    write_saved(tmp_path, SavedLearner({"texts": []}, old))
    found = read_saved(tmp_path).params
    assert found is not None
    bias = found["encoder"]["layers"]["bias"]  # [M, layers, ...]
    assert bias.shape == (3, 11, 2)
    np.testing.assert_array_equal(bias[0, :, 0], np.arange(11))
    np.testing.assert_array_equal(found["encoder"]["words"], embeddings)
    write_saved(tmp_path, SavedLearner({"texts": []}, found))
    again = read_saved(tmp_path).params
    assert again is not None
    np.testing.assert_array_equal(again["encoder"]["layers"]["bias"], bias)
