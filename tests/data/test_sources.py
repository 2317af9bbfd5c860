"""Raw files, made up in exactly their published form, to the common format."""

import gzip
import json
import zipfile

import numpy as np
import pytest

from crabjax.cli.prepare import main
from crabjax.config import DataConfig
from crabjax.data.load import load_data
from crabjax.data.sources import SOURCES, Asked, Source, eurlex, rcv1, register_source, uklex
from crabjax.data.sources.common import Omitted, draw_split
from crabjax.files import DataError


@pytest.mark.parametrize("name", SOURCES)
def test_missing_files_say_where_to_get_them(tmp_path, name):
    source = SOURCES[name]
    with pytest.raises(DataError) as caught:
        source.prepare(Asked(tmp_path, tmp_path / "out", {"train": 1, "test": 1}))
    assert source.about.where in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_paper_sizes():
    sizes = {name: (one.about.train_size, one.about.test_size) for name, one in SOURCES.items()}
    assert {name: size for name, size in sizes.items() if size != (None, None)} == {
        "mimic4_icd9": (29_999, 10_000),
        "mimic4_icd10": (29_999, 10_000),
        "rcv1": (24_891, 6_223),
        "uklex": (20_000, 8_500),
        "eurlex": (55_000, 5_000),
        "mimic": (29_999, 10_000),
    }


def test_a_registered_source_is_a_command_and_an_advice(tmp_path, monkeypatch, capsys):
    for name in SOURCES:
        with pytest.raises(ValueError, match=f"source '{name}' is already registered"):
            register_source(name, uklex.ABOUT)(uklex.prepare)
    monkeypatch.setitem(SOURCES, "laws", Source(uklex.ABOUT, uklex.prepare))
    missing = str(tmp_path / "train.jsonl")
    with pytest.raises(DataError, match=r"crabjax prepare laws --raw FOLDER .*uk-lex18\.jsonl"):
        load_data(DataConfig(name="laws", train=missing, test=missing))
    lines = [json.dumps({"body": f"law {number}", "labels": ["tax"]}) for number in range(3)]
    (tmp_path / "uk-lex18.jsonl").write_text("\n".join(lines))
    sizes = ["--train-size", "2", "--test-size", "1"]
    assert main(["laws", "--raw", str(tmp_path), "--output", str(tmp_path / "out"), *sizes]) == 0
    assert "train.jsonl: 2 documents" in capsys.readouterr().out


def test_split_is_disjoint_by_seed_and_refuses_too_much():
    split = draw_split(10, {"train": 6, "test": 3}, 0, "here")
    assert [int((split == part).sum()) for part in (0, 1, -1)] == [6, 3, 1]
    np.testing.assert_array_equal(split, draw_split(10, {"train": 6, "test": 3}, 0, "here"))
    assert (split != draw_split(10, {"train": 6, "test": 3}, 1, "here")).any()
    with pytest.raises(DataError, match=r"here: 8 train \+ 3 test documents asked for, found 10"):
        draw_split(10, {"train": 8, "test": 3}, 0, "here")


TOKENS_TRAIN = """.I 2286
.W
recov recov excit bring mexic
market  govern

.I 2287
.W
usx corp usx

.I 2288
.W
nowher

"""
TOKENS_TEST = ".I 26151\n.W\n\n.I 26152\n.W\ntea coffe\n\n"
QRELS = "E11 2286 1\nECAT 2286 1\nM11 2286 1\nCCAT 2287 1\nC24 26151 1\nMCAT 26152 1\n"


@pytest.fixture
def token_folder(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "lyrl2004_tokens_train.dat").write_text(TOKENS_TRAIN)
    (raw / "lyrl2004_tokens_test_pt0.dat.gz").write_bytes(gzip.compress(TOKENS_TEST.encode()))
    (raw / "rcv1-v2.topics.qrels.gz").write_bytes(gzip.compress(QRELS.encode()))
    return raw


def test_rcv1_token_files(token_folder, tmp_path, run, by_id):
    prepared, corpora = run(rcv1, token_folder, tmp_path / "out", 2, 1)
    assert by_id(corpora) == {
        "2286": ("recov recov excit bring mexic market govern", ("E11", "ECAT", "M11")),
        "2287": ("usx corp usx", ("CCAT",)),
        "26152": ("tea coffe", ("MCAT",)),
    }
    assert any(
        "left out 1: no topic" in line and "train.dat:10" in line for line in prepared.omitted
    )
    assert any("left out 1: no tokens" in line and "gz:1" in line for line in prepared.omitted)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("lyrl2004_tokens_train.dat", ".I 2286x\n.W\na\n", r"train\.dat:1: expected \"\.I\""),
        ("lyrl2004_tokens_train.dat", "stray words\n.I 1\n", r"train\.dat:1: expected \"\.I\""),
        ("rcv1-v2.topics.qrels", "E11 2286\n", r"qrels:1: expected \"topic document 1\""),
    ],
)
def test_rcv1_bad_lines_are_named(token_folder, tmp_path, name, content, message, run):
    (token_folder / name).write_text(content)
    with pytest.raises(DataError, match=message):
        run(rcv1, token_folder, tmp_path / "out", 1, 1)


def news(identity, topics, paragraphs=("First &amp; best.", "Caf\xe9.")):
    codes = "".join(
        f'<code code="{topic}"><editdetail action="confirmed"/></code>' for topic in topics
    )
    body = "".join(f"<p>{paragraph}</p>\n" for paragraph in paragraphs)
    return f"""<?xml version="1.0" encoding="iso-8859-1" ?>
<newsitem itemid="{identity}" id="root" date="1996-08-20" xml:lang="en">
<title>MEXICO: Recovery excitement.</title>
<headline>Recovery excitement.</headline>
<dateline>MEXICO CITY</dateline>
<text>
{body}</text>
<copyright>(c) Reuters Limited 1996</copyright>
<metadata>
<codes class="bip:countries:1.0"><code code="MEX"></code></codes>
<codes class="bip:topics:1.0">{codes}</codes>
<dc element="dc.publisher" value="Reuters Holdings Plc"/>
</metadata>
</newsitem>""".encode("iso-8859-1")


def test_rcv1_news_items_loose_and_zipped(tmp_path, run, by_id):
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "2286newsML.xml").write_bytes(news(2286, ["E11", "ECAT"]))
    (raw / "2287newsML.xml").write_bytes(news(2287, []))
    with zipfile.ZipFile(raw / "19960821.zip", "w") as archive:
        archive.writestr("2330newsML.xml", news(2330, ["CCAT"], ["One."]))
    prepared, corpora = run(rcv1, raw, tmp_path / "out", 1, 1)
    assert by_id(corpora) == {
        "2286": ("Recovery excitement.\nFirst & best.\nCaf\xe9.", ("E11", "ECAT")),
        "2330": ("Recovery excitement.\nOne.", ("CCAT",)),
    }
    assert "left out 1: no topic code" in prepared.omitted[0]
    (raw / "2288newsML.xml").write_bytes(news(2288, ["CCAT"])[:-20])
    with pytest.raises(DataError, match=r"2288newsML\.xml: not well-formed XML"):
        run(rcv1, raw, tmp_path / "out", 1, 1)


def test_rcv1_broken_zip_and_mixed_folder_are_named(token_folder, tmp_path, run):
    (tmp_path / "19960820.zip").write_bytes(b"PK nothing")
    with pytest.raises(DataError, match=r"19960820\.zip: broken zip file"):
        list(rcv1.read_news([tmp_path / "19960820.zip"], Omitted()))
    (token_folder / "1newsML.xml").write_bytes(news(1, ["C1"]))
    with pytest.raises(DataError, match="both token files and news items"):
        run(rcv1, token_folder, tmp_path / "out", 1, 1)


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def test_uklex(tmp_path, run, by_id):
    records = [
        {"title": f"Act {i}", "body": f"Text {i}", "labels": ["TAXATION", "EU"], "year": 1990 + i}
        for i in range(4)
    ]
    records.insert(1, {"title": "None", "body": "x", "labels": [], "year": 1975})
    path = tmp_path / "uk-lex18.jsonl"
    path.write_text(lines(*records))
    prepared, corpora = run(uklex, tmp_path, tmp_path / "out", 3, 1)
    assert by_id(corpora)["1"] == ("Act 0\nText 0", ("EU", "TAXATION"))
    assert prepared.written == {"train": 3, "test": 1}
    assert "left out 1: no labels" in prepared.omitted[0]
    assert "jsonl:2" in prepared.omitted[0]
    path.write_text(lines(*records[:2], {"title": "No body", "labels": ["EU"]}))
    with pytest.raises(DataError, match=r'uk-lex18\.jsonl:3: expected "body" text'):
        run(uklex, tmp_path, tmp_path / "out", 1, 1)


def law(number, concepts, **texts):
    levels = {"level_1": concepts, "level_2": ["x"], "all_levels": ["y"]}
    return {"celex_id": f"3{number}R", "text": texts, "eurovoc_concepts": levels}


def test_eurlex(tmp_path, run):
    (tmp_path / "train.jsonl").write_text(
        lines(
            law(1, ["100156", "100147"], en="Eggs", de="Eier"),
            law(2, [], en="None"),
            law(3, ["100148"], de="Nur deutsch"),
            law(4, ["100148"], en="Money"),
        )
    )
    (tmp_path / "test.jsonl").write_text(lines(law(5, ["100147"], en="Trade")))
    (tmp_path / "dev.jsonl").write_text(lines(law(6, ["100147"], en="Tariff")))
    prepared, corpora = run(eurlex, tmp_path, tmp_path / "out", 2, 1)
    assert prepared.written == {"train": 2, "test": 1, "validation": 1}
    assert corpora["train"].label_sets == [("100147", "100156"), ("100148",)]
    assert corpora["train"].ids == ["31R", "34R"]
    assert list(corpora["validation"].texts()) == ["Tariff"]
    assert [line.split(" (")[0] for line in prepared.omitted] == [
        "left out 1: no level-1 concept",
        "left out 1: no English text",
    ]
    with pytest.raises(DataError, match=r"3 train documents asked for, found 2"):
        run(eurlex, tmp_path, tmp_path / "out", 3, 1)
    (tmp_path / "test.jsonl").write_text(lines({"celex_id": "1", "text": "x", "topics": [3]}))
    with pytest.raises(DataError, match=r'test\.jsonl:1: expected "text" by language'):
        run(eurlex, tmp_path, tmp_path / "out", 1, 1)


def test_eurlex_needs_its_development_file_and_prefers_a_plain_one(tmp_path, run):
    for name in ("train", "test"):
        (tmp_path / f"{name}.jsonl").write_text(lines(law(1, ["100147"], en="Trade")))
    with pytest.raises(DataError, match=r"no dev\.jsonl or dev\.jsonl\.gz here.*zenodo"):
        run(eurlex, tmp_path, tmp_path / "out", 1, 1)
    assert not (tmp_path / "out").exists()
    packed = lines(law(2, ["100147"], en="Packed")).encode()
    (tmp_path / "dev.jsonl.gz").write_bytes(gzip.compress(packed))
    assert list(run(eurlex, tmp_path, tmp_path / "out", 1, 1)[1]["validation"].texts()) == [
        "Packed"
    ]
    (tmp_path / "dev.jsonl").write_text(lines(law(2, ["100147"], en="Plain")))
    assert list(run(eurlex, tmp_path, tmp_path / "out", 1, 1)[1]["validation"].texts()) == ["Plain"]


@pytest.mark.parametrize("concepts", ["100147", ["100147", 3], {"100147": 1}])
def test_eurlex_concepts_must_be_a_list_of_strings(tmp_path, concepts, run):
    for name in ("train", "test", "dev"):
        (tmp_path / f"{name}.jsonl").write_text(lines(law(1, concepts, en="Trade")))
    with pytest.raises(DataError, match=r'train\.jsonl:1: "level_1" must be a list of strings'):
        run(eurlex, tmp_path, tmp_path / "out", 1, 1)
