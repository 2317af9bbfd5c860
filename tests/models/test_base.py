"""What all classifiers share: their two methods."""

import pytest

from crabjax.models.base import Classifier


def test_a_classifier_needs_both_methods():
    class NoLogits(Classifier):
        def features(self, inputs):
            return inputs

    with pytest.raises(TypeError, match="abstract method logits"):
        NoLogits()  # pyright: ignore[reportAbstractUsage]
