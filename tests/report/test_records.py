"""Records: written at once, read back, summarised."""

import json

import numpy as np
import pytest

from crabjax.report.kept import read_kept, write_kept
from crabjax.report.records import (
    RecordsError,
    area_under_curve,
    curves,
    is_estimated,
    read_records,
    summarise,
    value_of,
    write_records,
)


def record(seed, number, f1):
    values = {"micro_f1": f1, "macro_f1": f1 / 2, "mean_average_precision": f1}
    kind = {"strategy": "crab", "model": "text_cnn", "data": "corpus"}
    done = {"selected": [1], "seconds": {"query": 0.1}, "failed_epochs": [-1]}
    done |= {"members": {"micro_f1": [f1]}, "mean_ir_selected": 1.0}
    done |= {"hard_left": 3, "negative_left": 0}
    return {"seed": seed, "round": number, "labelled": 10 * (number + 1), **kind, **done, **values}


RECORDS = [record(s, r, 0.1 * s + 0.2 * r) for r in range(3) for s in (4, 7)]


def sampled(one):
    """A record of a run that predicted a sample of U."""
    counts = {"hard_left": 3.5, "negative_left": 0.0}
    kept = {key: value for key, value in one.items() if key not in counts}
    for name, value in counts.items():
        kept |= {f"estimated_{name}": value, f"{name}_standard_error": 1.25}
    return kept


def test_counts_of_a_sample_are_read_by_the_name_of_the_count(tmp_path):
    path, records = tmp_path / "records.jsonl", [sampled(one) for one in RECORDS]
    write_records(path, records)
    assert read_records(path) == records
    assert value_of(records[0], "hard_left") == 3.5
    assert value_of(RECORDS[0], "hard_left") == 3
    assert is_estimated(records[0], "hard_left")
    assert not is_estimated(RECORDS[0], "hard_left")
    write_kept({"corpus": {"crab": records, "random": RECORDS}}, tmp_path)
    runs = read_kept(tmp_path / "corpus.jsonl.gz")
    assert runs["crab"][0]["estimated_hard_left"] == 3.5
    assert runs["crab"][0]["hard_left_standard_error"] == 1.25
    assert "hard_left" not in runs["crab"][0]
    assert runs["random"][0]["hard_left"] == 3
    assert not any("estimated" in name for name in runs["random"][0])


def test_a_record_has_a_count_or_an_estimate(tmp_path):
    path, record = tmp_path / "records.jsonl", sampled(RECORDS[0])
    del record["estimated_hard_left"]
    write_records(path, [record])
    with pytest.raises(RecordsError, match="expected a record with hard_left"):
        read_records(path)


def test_round_trip_leaves_no_other_file(tmp_path):
    path = tmp_path / "records.jsonl"
    write_records(path, RECORDS)
    write_records(path, RECORDS)
    assert read_records(path) == RECORDS
    assert [one.name for one in tmp_path.iterdir()] == ["records.jsonl"]


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ('{"seed": 4, "rou', r"records.jsonl:7: not a whole JSON object"),
        ("[1]", r"records.jsonl:7: expected a record, found '\[1\]'"),
        ('{"seed": 4}', r"records.jsonl:7: expected a record with round, labelled, strategy"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, tail, message):
    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in RECORDS) + tail)
    with pytest.raises(RecordsError, match=message):
        read_records(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"micro_f1": float("nan")}, '"micro_f1" is nan: not a result'),
        ({"mean_average_precision": float("inf")}, '"mean_average_precision" is inf'),
        ({"seed": "4"}, "\"seed\" of a record cannot be '4'"),
        ({"labelled": None}, '"labelled" of a record cannot be'),
        ({"round": True}, '"round" of a record cannot be'),
        ({"selected": 3}, '"selected" of a record cannot be'),
        ({"members": {}}, "without a number a member"),
        ({"failed_epochs": ["a"]}, "without a number a member"),
        ({"seconds": {}}, 'without "query"'),
    ],
)
def test_what_is_json_but_no_record_of_ours_is_named(tmp_path, change, message):
    path = tmp_path / "records.jsonl"
    write_records(path, [RECORDS[0], RECORDS[1] | change])
    with pytest.raises(RecordsError, match=f"records.jsonl:2: .*{message}"):
        read_records(path)


def test_bytes_that_are_no_text_are_named(tmp_path):
    (tmp_path / "records.jsonl").write_bytes(b'{"seed": "\xff"}\n')
    with pytest.raises(RecordsError, match=r"records.jsonl:1: not a whole JSON object"):
        read_records(tmp_path / "records.jsonl")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(RecordsError, match=r"none.jsonl: no such file"):
        read_records(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(RecordsError, match=r"empty.jsonl: no record in it"):
        read_records(tmp_path / "empty.jsonl")


def test_curves_are_per_seed_and_stop_where_a_seed_stops():
    labelled, values = curves(RECORDS[:-1], "micro_f1")
    np.testing.assert_array_equal(labelled, [10, 20])
    np.testing.assert_allclose(values, [[0.4, 0.6], [0.7, 0.9]])


def test_curves_do_not_depend_on_the_order_of_records():
    labelled, values = curves(RECORDS[::-1], "micro_f1")
    np.testing.assert_array_equal(labelled, [10, 20, 30])
    np.testing.assert_allclose(values, [[0.7, 0.9, 1.1], [0.4, 0.6, 0.8]])


def test_area_is_the_mean_height():
    np.testing.assert_allclose(
        area_under_curve(np.array([10, 20, 40]), np.array([0.0, 1.0, 1.0])), 25 / 30
    )
    np.testing.assert_allclose(
        area_under_curve(np.array([10]), np.array([[0.4], [0.6]])), [0.4, 0.6]
    )


def test_summary_by_hand():
    summary = summarise(RECORDS)
    assert summary["seeds"] == [4, 7]
    assert summary["labelled"] == [10, 20, 30]
    np.testing.assert_allclose(summary["micro_f1"]["mean"], [0.55, 0.75, 0.95])
    np.testing.assert_allclose(summary["micro_f1"]["area"]["mean"], 0.75)
    np.testing.assert_allclose(summary["micro_f1"]["area"]["std"], np.std([0.6, 0.9], ddof=1))
