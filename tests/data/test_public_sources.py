"""Public data sets, from files made up in exactly their published form."""

import functools
import gzip
import json

import pytest

from crabjax.cli.main import main
from crabjax.data.corpus import read_corpus
from crabjax.data.sources import SOURCES, Asked, hub, mimic4, rcv1
from crabjax.data.sources.common import Omitted
from crabjax.data.sources.records import named_labels
from crabjax.files import DataError, DataWarning


def run(name, raw, output, train=None, test=None):
    asked = Asked(raw, output, {"train": train, "test": test})
    prepared = SOURCES[name].prepare(asked)
    return prepared, {split: read_corpus(output / f"{split}.jsonl") for split in prepared.written}


def from_hub(raw, output, sizes=None):
    return hub.prepare(Asked(raw, output, sizes or {}), hub.Columns())


def story(number, split, topics, title="A TITLE", body="Text &lt;of&gt; it.\n Reuter\n&#3;"):
    codes = "".join(f"<D>{topic}</D>" for topic in topics)
    inside = f"<TITLE>{title}</TITLE><DATELINE> London, </DATELINE><BODY>{body}</BODY>"
    return (
        f'<REUTERS TOPICS="YES" LEWISSPLIT="{split}" CGISPLIT="TRAINING-SET" OLDID="9" '
        f'NEWID="{number}">\n<DATE>26-FEB-1987</DATE>\n<TOPICS>{codes}</TOPICS>\n'
        f"<PLACES><D>usa</D></PLACES>\n<TEXT>&#2;\n{inside}</TEXT>\n</REUTERS>\n"
    )


@pytest.fixture
def reuters(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    head = '<!DOCTYPE lewis SYSTEM "lewis.dtd">\n'
    first = [story(n, "TRAIN", ["earn"] if n % 2 else ["acq", "earn"]) for n in range(1, 61)]
    first += [story(61, "TRAIN", ["tea"]), story(62, "TRAIN", []), story(63, "NOT-USED", ["earn"])]
    first[0] = story(1, "TRAIN", ["earn"], "CAF\xc9", "Body.")
    second = [
        story(100, "TEST", ["earn", "rye"]),
        story(101, "TEST", ["tea"]),
        story(102, "TEST", ["rye"]),
        story(103, "TEST", ["acq"]).replace('TOPICS="YES"', 'TOPICS="NO"'),
        '<REUTERS TOPICS="YES" LEWISSPLIT="TEST" NEWID="104">\n<TOPICS><D>earn</D></TOPICS>\n'
        '<TEXT TYPE="UNPROC">&#2;\nqtr div 3 cts\n&#3;</TEXT>\n</REUTERS>\n',
    ]
    (raw / "reut2-000.sgm").write_bytes((head + "".join(first)).encode("latin-1"))
    (raw / "reut2-001.sgm").write_bytes((head + "".join(second)).encode("latin-1"))
    return raw


def test_reuters_modapte(reuters, tmp_path):
    prepared, corpora = run("reuters", reuters, tmp_path / "out")
    assert prepared.written == {"train": 61, "test": 3}  # rye is never trained on, acq not tested
    assert corpora["train"].label_names == ("earn", "tea")
    texts = dict(zip(corpora["train"].ids or [], corpora["train"].texts()))
    assert texts["1"] == "CAF\xc9\nBody."
    assert texts["2"] == "A TITLE\nText <of> it."
    assert list(corpora["test"].texts())[-1] == "qtr div 3 cts"
    assert corpora["test"].ids == ["100", "101", "104"]
    assert any("not in the ModApte split" in line for line in prepared.omitted)
    assert any("left out 1: test: no topic among those kept" in line for line in prepared.omitted)


def test_reuters_with_frequent_topics(reuters, tmp_path):
    prepared, corpora = run("reuters26", reuters, tmp_path / "out")
    assert corpora["train"].label_names == ("earn",)
    assert prepared.written == {"train": 60, "test": 2}
    prepared, _ = run("reuters26", reuters, tmp_path / "less", 10, 1)
    assert prepared.written == {"train": 10, "test": 1}
    (reuters / "reut2-002.sgm").write_text("nothing")
    with pytest.raises(DataError, match=r"reut2-002\.sgm: expected stories in <REUTERS"):
        run("reuters26", reuters, tmp_path / "out")


def test_goemotions(tmp_path):
    (tmp_path / "emotions.txt").write_text("admiration\nanger\nneutral\n")
    (tmp_path / "train.tsv").write_text('He said "no"\t1\teew5j0j\nGood\t0,2\ted2mah1\n')
    (tmp_path / "dev.tsv").write_text("Fine\t2\teeb1\n")
    (tmp_path / "test.tsv").write_text("Oh\t2\tef1\n\t0\tef2\n")
    prepared, corpora = run("goemotions", tmp_path, tmp_path / "out")
    assert prepared.written == {"train": 2, "test": 1, "validation": 1}
    assert corpora["train"].label_sets == [("anger",), ("admiration", "neutral")]
    assert corpora["train"].documents[0] == 'He said "no"'
    assert "left out 1: no text" in prepared.omitted[0]
    (tmp_path / "test.tsv").write_text("Oh\t3\tef1\n")
    with pytest.raises(DataError, match=r"test\.tsv:1: expected text, numbers below 3 and an id"):
        run("goemotions", tmp_path, tmp_path / "out")


def test_semeval(tmp_path):
    head = "ID\tTweet\tanger\tjoy\n"
    for name, lines in {
        "train": '2017-En-1\t"Oh no\t1\t0\n2017-En-2\tYes\t1\t1\n2017-En-3\tWell\t0\t0\n',
        "dev": "2018-En-1\tHm\t0\t1\n",
        "test-gold": "2018-En-9\tHa\t0\t1\n",
    }.items():
        (tmp_path / f"2018-E-c-En-{name}.txt").write_text(head + lines)
    prepared, corpora = run("semeval2018ec", tmp_path, tmp_path / "out")
    assert prepared.written == {"train": 2, "test": 1, "validation": 1}
    assert corpora["train"].documents[0] == '"Oh no'
    assert corpora["train"].label_sets == [("anger",), ("anger", "joy")]
    (tmp_path / "2018-E-c-En-dev.txt").write_text(head + "1\tHm\tNONE\tNONE\n")
    with pytest.raises(DataError, match=r"dev\.txt:2: expected an id, a tweet and 2 times 0 or 1"):
        run("semeval2018ec", tmp_path, tmp_path / "out")


def test_rcv1_vectors_are_bags_with_the_heaviest_terms_first(tmp_path):
    lines = "2286  864:0.05 1523:0.9 7:0.2\n2287  12:1\n2288  5:1\n2289\n"
    (tmp_path / "lyrl2004_vectors_train.dat.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "rcv1v2.topics.qrels").write_text("E11 2286 1\nC15 2287 1\nC15 2289 1\n")
    with pytest.warns(DataWarning, match=r"vectors_train\.dat\.gz: not the published file"):
        prepared, corpora = run("rcv1", tmp_path, tmp_path / "out", 1, 1)
    words = {i: w for c in corpora.values() for i, w in zip(c.ids or [], c.words())}
    assert words == {"2286": ["1523", "7", "864"], "2287": ["12"]}
    assert [line.split(" (")[0] for line in prepared.omitted] == [
        "left out 1: no topic in the qrels file",
        "left out 1: no terms",
    ]
    (tmp_path / "vectors.dat").write_text("2286 864\n")
    with pytest.raises(DataError, match=r'vectors\.dat:1: expected "id term:weight'):
        list(rcv1.read_vector_files([tmp_path / "vectors.dat"], {}, Omitted()))


def mimic_iv(folder):
    (folder / "diagnoses_icd.csv").write_text(
        "subject_id,hadm_id,seq_num,icd_code,icd_version\n"
        "1,20,1,I5023,10\n1,20,2,Z9181,10\n1,21,1,4280,9\n1,22,1,XX,10\n1,23,1,J189,10\n"
    )
    notes = (
        "note_id,subject_id,hadm_id,note_type,note_seq,charttime,storetime,text\n"
        '1-DS-1,1,20,DS,1,2180-05-07,2180-05-09,"Name: ___\nHeart ""failure"""\n'
        "1-DS-2,1,21,DS,2,2180-05-07,2180-05-09,Older\n"
        "1-DS-3,1,22,DS,3,2180-05-07,2180-05-09,No code\n"
        "1-DS-4,1,23,DS,4,2180-05-07,2180-05-09,Lungs\n"
        "1-DS-5,1,23,DS,5,2180-05-07,2180-05-09,Again\n"
        "1-DS-6,1,,DS,6,2180-05-07,2180-05-09,Nowhere\n"
    )
    (folder / "discharge.csv.gz").write_bytes(gzip.compress(notes.encode()))


def test_mimic_iv_in_both_codes(tmp_path):
    mimic_iv(tmp_path)
    prepared, corpora = run("mimic4_icd10", tmp_path, tmp_path / "ten", 1, 1)
    found = {i: (t, s) for c in corpora.values() for i, t, s in
             zip(c.ids or [], c.texts(), c.label_sets)}  # fmt: skip
    assert found == {
        "20": ('Name:  \nHeart "failure"', ("I00-I99", "Z00-Z99")),
        "23": ("Lungs", ("J00-J99",)),
    }
    assert [line.split(" (")[0] for line in prepared.omitted] == [
        "left out 1: diagnosis without a valid ICD-10 code",
        "left out 2: discharge summary of an admission without such diagnoses",
        "left out 1: second discharge summary of an admission",
        "left out 1: discharge summary without admission",
    ]
    with pytest.raises(DataError, match="1 train \\+ 1 test documents asked for, found 1 usable"):
        run("mimic4_icd9", tmp_path, tmp_path / "nine", 1, 1)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("A000", "A00-B99"),
        ("b99", "A00-B99"),
        ("D499", "C00-D49"),
        ("D500", "D50-D89"),
        ("H599", "H00-H59"),
        ("H600", "H60-H95"),
        ("O9A21", "O00-O9A"),
        ("T889", "S00-T88"),
        ("U071", "U00-U85"),
        ("Y998", "V00-Y99"),
        ("Z00", "Z00-Z99"),
        ("F00", None),
        ("E", None),
        ("4280", None),
        ("", None),
    ],
)
def test_icd10_chapters(code, expected):
    assert mimic4.chapter(code) == expected


def test_icd10_chapters_do_not_overlap():
    ends = [end for pair in mimic4.CHAPTERS for end in pair]
    assert ends == sorted(ends)
    assert len(mimic4.CHAPTERS) == 22


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def test_eurlex_and_uklex_as_the_hub_ships_them(tmp_path):
    for name in ("train", "validation", "test"):
        record = {"celex_id": f"3{name}", "text": "A law", "labels": [3, 18]}
        (tmp_path / f"{name}.jsonl").write_text(lines(record, record | {"labels": []}))
    prepared, corpora = run("eurlex", tmp_path, tmp_path / "out")
    assert prepared.written == {"train": 1, "test": 1, "validation": 1}
    assert corpora["train"].label_sets == [("18", "3")]
    prepared, corpora = run("uklex", tmp_path, tmp_path / "uk")
    assert prepared.written == {"train": 1, "test": 1, "validation": 1}


def test_any_files_of_the_hub(tmp_path, capsys):
    raw = tmp_path / "raw" / "data"
    raw.mkdir(parents=True)
    (raw / "train-00000-of-00002.jsonl").write_text(lines({"body": "One", "tags": ["b", "a"]}))
    (raw / "train-00001-of-00002.jsonl").write_text(lines({"body": " ", "tags": []}))
    (raw / "test-00000-of-00001.csv").write_text("body,tags\nTwo,a | c\n")
    command = ["prepare", "hub", str(tmp_path / "raw"), "--output", str(tmp_path / "out")]
    columns = ["--texts-column", "body", "--labels-column", "tags", "--label-separator", "|"]
    assert main([*command, *columns]) == 0
    said = capsys.readouterr().out
    assert "left out 1: no text" in said
    assert read_corpus(tmp_path / "out" / "train.jsonl").label_sets == [("a", "b")]
    assert read_corpus(tmp_path / "out" / "test.jsonl").label_sets == [("a", "c")]
    assert main([*command, *columns]) == 1
    assert "train.jsonl: is there already; --force overwrites it" in capsys.readouterr().err
    assert main([*command, "--force"]) == 1
    assert 'no column "text", found body, tags' in capsys.readouterr().err


def test_one_file_is_split_and_configurations_are_told_apart(tmp_path):
    (tmp_path / "all.jsonl").write_text(lines(*({"text": f"t{n}", "labels": n} for n in range(9))))
    sizes = {"train": 5, "test": 3}
    assert from_hub(tmp_path / "all.jsonl", tmp_path / "out", sizes).written == sizes
    with pytest.raises(DataError, match="give --train-size and --test-size"):
        from_hub(tmp_path / "all.jsonl", tmp_path / "out", {"train": 5})
    for name in ("raw", "simplified"):
        (tmp_path / "many" / name).mkdir(parents=True)
        (tmp_path / "many" / name / "train.jsonl").write_text(lines({"text": "t", "labels": [1]}))
    with pytest.raises(DataError, match=r"several files of the split train.*--within WORD"):
        hub.split_files(tmp_path / "many")
    found = hub.split_files(tmp_path / "many", "simplified")
    assert found == {"train": [tmp_path / "many" / "simplified" / "train.jsonl"]}


def test_files_of_no_split_are_left_out_beside_train_and_test(tmp_path):
    raw = tmp_path / "raw"
    (raw / "latest").mkdir(parents=True)
    for name in ("train.jsonl", "test.jsonl", "latest/validation.jsonl", "notes.jsonl"):
        (raw / name).write_text(lines({"text": name, "labels": ["a"]}))
    (raw / "dataset_infos.json").write_text('{\n"default": {}\n}\n')
    prepared = from_hub(raw, tmp_path / "out")
    assert prepared.written == {"train": 1, "test": 1, "validation": 1}
    assert prepared.omitted == [f"left out {raw / 'notes.jsonl'}: named after no split"]
    assert len(list((tmp_path / "out").iterdir())) == 3
    (raw / "test.jsonl").unlink()  # then all that is left is one pool, but for what is no data
    drawn = from_hub(raw, tmp_path / "drawn", {"train": 2, "test": 1})
    assert drawn.written == {"train": 2, "test": 1}


@pytest.mark.parametrize(
    ("place", "split"),
    [
        ("en/Training_set.csv", "train"),
        ("go_emotions_test1.tsv", "test"),
        ("contest/latest.csv", ""),
        ("constrained/dev.csv", "validation"),
        ("invalidated.csv", ""),
        ("train_and_test/test.csv", "test"),
        ("train/data.csv", "train"),
    ],
)
def test_splits_are_told_by_whole_words(tmp_path, place, split):
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("text,labels\n")
    assert hub.split_files(tmp_path) == {split: [path]}


def write_classes(path, labels, names=("anger", "joy")):
    """A Parquet file with one text a list of numbers, as the hub writes it."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    feature = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "Sequence"}
    about = json.dumps({"info": {"features": {"labels": feature}}})
    table = pyarrow.table({"text": [f"Text {n}" for n in range(len(labels))], "labels": labels})
    parquet.write_table(table.replace_schema_metadata({"huggingface": about}), path)


def test_numbers_of_named_classes():
    names = ["anger", "joy"]
    assert named_labels([1, -1, 0, 1], names, "f:1") == ("anger", "joy")
    assert named_labels([-1], names, "f:1") == ()
    assert named_labels([-1, " up "], None, "f:1") == ("-1", "up")  # whatever these stand for
    for number in (2, -2):
        with pytest.raises(DataError, match=f"^f:1: expected labels from 0 to 1, .*found {number}"):
            named_labels([0, number], names, "f:1")


def test_the_number_of_no_label_names_no_class(tmp_path):
    for name in ("train", "validation", "test"):
        write_classes(tmp_path / f"{name}.parquet", [[0, 0], [-1], [1, -1]])
    from_hub(tmp_path, tmp_path / "out")
    assert read_corpus(tmp_path / "out" / "train.jsonl").label_sets == [("anger",), (), ("joy",)]
    for source in ("eurlex", "uklex"):
        _, corpora = run(source, tmp_path, tmp_path / source)
        assert corpora["train"].label_sets == [("anger",), ("joy",)]


@pytest.mark.parametrize("number", [2, -2])
@pytest.mark.parametrize("source", ["hub", "eurlex", "uklex"])
def test_a_number_that_no_class_has_is_named(tmp_path, source, number):
    for name in ("train", "validation", "test"):
        write_classes(tmp_path / f"{name}.parquet", [[0], [number]])
    expected = rf"train\.parquet:2: expected labels from 0 to 1, .* found {number}$"
    prepare = from_hub if source == "hub" else functools.partial(run, source)
    with pytest.raises(DataError, match=expected):
        prepare(tmp_path, tmp_path / "out")


def test_eurlex_leaves_out_blank_texts_and_repeated_labels(tmp_path):
    good = {"celex_id": "1", "text": "A law", "labels": ["b", "a", "b"]}
    for name in ("train", "validation", "test"):
        (tmp_path / f"{name}.jsonl").write_text(lines(good, good | {"text": " \n"}))
    prepared, corpora = run("eurlex", tmp_path, tmp_path / "out")
    assert corpora["train"].label_sets == [("a", "b")]
    assert "left out 3: no English text" in prepared.omitted[0]


def test_parquet_with_named_classes(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    for name in ("train", "test"):
        write_classes(raw / f"{name}-00000-of-00001.parquet", [[0], [0, 1]])
    from_hub(raw, tmp_path / "out")
    found = read_corpus(tmp_path / "out" / "train.jsonl")
    assert found.label_sets == [("anger",), ("anger", "joy")]
    (raw / "train-00000-of-00001.parquet").write_bytes(b"nothing")
    with pytest.raises(DataError, match="not a Parquet file"):
        from_hub(raw, tmp_path / "out")
