"""Labels as people give them."""

import numpy as np
import pytest
from sklearn.preprocessing import MultiLabelBinarizer

from crabjax.labelling.answers import LabelError, check_label_names, label_matrix, parse_answers
from crabjax.labelling.labelled_texts import LabelledTexts

NAMES = ("a", "b", "c")
SETS = [["a"], ["b", "c"], []]
EXPECTED = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0]], bool)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_label_binarizers_matrix_says_the_same_as_lists(sparse):
    matrix = MultiLabelBinarizer(classes=NAMES, sparse_output=sparse).fit_transform(SETS)
    assert parse_answers(matrix, NAMES, 3) == parse_answers(SETS, NAMES, 3) == SETS
    np.testing.assert_array_equal(label_matrix(SETS, NAMES), EXPECTED)


def test_partial_answers():
    given = [["c", "a"], "skipped", None, []]
    assert parse_answers(given, NAMES, 4) == [["a", "c"], "skipped", None, []]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([["a"], ["bb"], []], r'labels\[1\]: unknown label "bb"; did you mean "b"'),
        ([["a"], "b", []], r"labels\[1\]: expected a list of labels"),
        ([["a"]], "expected 3 entries"),
        ("abc", "expected one entry a document"),
        (None, "expected one entry a document"),
        (np.zeros((3, 2)), r"expected a matrix \(3, 3\)"),
    ],
)
def test_labels_that_do_not_fit_are_named(labels, message):
    with pytest.raises(LabelError, match=message):
        parse_answers(labels, NAMES, 3)


def test_a_matrix_of_other_numbers_is_refused():
    with pytest.raises(LabelError, match="expected labels 0 or 1, found 2"):
        parse_answers(np.full((3, 3), 2), NAMES, 3)


@pytest.mark.parametrize("names", [[], ["a", "a"], [""], ["skipped"], "abc", [1]])
def test_label_names_must_be_distinct_words(names):
    with pytest.raises(LabelError, match="label_names"):
        check_label_names(names)


def test_a_later_answer_replaces_the_earlier_and_comes_last():
    known = LabelledTexts(NAMES)
    assert known.add(["x", "y", "x", "z"])
    assert not known.add(["y"])
    known.answer(["x", "y", "z"], parse_answers([["a"], ["b"], "skipped"], NAMES, 3))
    known.answer(["x", "y"], parse_answers([["c"], None], NAMES, 2))
    assert known.documents == ["x", "y", "z"]
    assert known.labelled_rows().tolist() == [1, 0]
    assert known.unchosen_rows().tolist() == [1, 0]  # nobody chose it, whatever is said of it now
    assert known.answered == {0, 1, 2}
    np.testing.assert_array_equal(known.labels(), [[0, 0, 1], [0, 1, 0], [0, 0, 0]])
    assert known.rows(["z", "x"]).tolist() == [2, 0]
    assert known.rows(["new"]) is None
    known.add(["new"])
    known.may_be_chosen = True
    known.answer(["new"], [["a"]])
    assert known.labelled_rows().tolist() == [1, 0, 3]
    assert known.unchosen_rows().tolist() == [1, 0]
    assert LabelledTexts.from_dict(known.to_dict()).to_dict() == known.to_dict()


def test_names_are_compared_in_one_unicode_form():
    assert check_label_names(["cafe\u0301"]) == ("caf\u00e9",)
    assert parse_answers([["cafe\u0301"]], ["caf\u00e9"], 1) == [["caf\u00e9"]]
