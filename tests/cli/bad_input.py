"""Mistakes that people make, one a line: what is typed, what is in the files, what is said.

``python tests/cli/bad_input.py docs/reliability.md`` writes them as a table into that file.
"""
# ruff: noqa: E501, a table: a line a case

import gzip
import io
import json
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

BEGIN, END = "<!-- bad input begin -->", "<!-- bad input end -->"


class Case(NamedTuple):
    """A mistake.

    Attributes:
      what: in words.
      typed: after ``crabjax``.
      said: part of the one line on stderr.
      status: of the command.
      files: written beforehand; bytes, or text.
    """

    what: str
    typed: str
    said: str
    status: int = 1
    files: dict[str, str | bytes] = {}  # noqa: RUF012


def config(text: str) -> dict[str, str | bytes]:
    return {"x.yaml": text}


def data(content: str | bytes, name: str = "bad.jsonl", **settings) -> dict[str, str | bytes]:
    named = {"train": name, "test": "test.jsonl", "validation_size": 4} | settings
    return {name: content, "x.yaml": json.dumps({"data": named})}


def encoder(settings: str, **files: bytes) -> dict[str, str | bytes]:
    return {"enc/config.json": settings} | {
        f"enc/{k.replace('_', '.')}": v for k, v in files.items()
    }


def npy(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def vectors(train: np.ndarray | bytes, test: str = "t.npy", model: str = "frozen"):
    named = {"train": "train.jsonl", "test": "test.jsonl", "vectors": "v.npy", "test_vectors": test}
    settings = json.dumps({"data": named, "model": {"name": model}})
    content = train if isinstance(train, bytes) else npy(train)
    return {"v.npy": content, "t.npy": npy(VECTORS), "x.yaml": settings}


VECTORS = np.ones((9, 3), np.float32)
NAN = VECTORS.copy()
NAN[4, 1] = np.nan
X = "train --config x.yaml --output out"
SET = f"{X} --set"
NOTHING = config("{}")
INIT = "init --project new --texts pool.csv"
ADD = "add in.csv"
LINE = '{"text": "x", "labels": ["a"]}\n'
FROZEN = f"{INIT} --labels a --encoder ./enc"
CUT_GZIP = gzip.compress(50 * LINE.encode())[:-12]
RECORD = Path(__file__).parents[1] / "fixtures" / "before_reliability" / "run" / "records.jsonl"
FIRST = json.loads(RECORD.read_text().splitlines()[0])


def record(**change) -> dict[str, str | bytes]:
    return {"runs/a/records.jsonl": json.dumps(FIRST | change) + "\n"}


CASES = [
    # the command itself
    Case("a command that is none", "frobnicate", "no command 'frobnicate'", 2),
    Case("a misspelt command", "predct", "did you mean predict?", 2),
    Case("an unknown option", "train --confg x", "unrecognized arguments", 2),
    # configurations
    Case("a configuration that is not there", "train --config nothing.yaml", "no such configuration"),
    Case("a misspelt configuration", "train --config demo.yml", "did you mean demo.yaml?"),
    Case("a folder as configuration", "train --config runs", "no such configuration"),
    Case("YAML that ends too early", X, "x.yaml:1:17: not valid YAML", files=config("loop: {rounds: 3")),
    Case("a tab in YAML", X, "x.yaml:2:1: not valid YAML", files=config("loop:\n\trounds: 3")),
    Case("bytes in YAML", X, "x.yaml: not valid YAML", files={"x.yaml": b"\xff\xfe"}),
    Case("a section twice", X, "the key 'loop' is given twice", files=config("loop: {}\nloop: {}\n")),
    Case("a key twice", X, "the key 'rounds' is given twice", files=config("loop: {rounds: 1, rounds: 2}")),
    Case("an object of Python in YAML", X, "not valid YAML", files=config("a: !!python/name:os.system")),
    Case("a list as configuration", X, "x.yaml: expected sections", files=config("- a")),
    Case("a word as section", X, "loop: expected a section, found 'x'", files=config("loop: x")),
    Case("an unknown section", X, "lop: unknown key", files=config("lop: {rounds: 3}")),
    Case("an unknown key", X, "loop.round: unknown key; did you mean loop.rounds?", files=config("loop: {round: 3}")),
    Case("text for a number", X, "loop.rounds: expected an integer", files=config("loop: {rounds: many}")),
    Case("a fraction for a count", X, "loop.rounds: expected an integer", files=config("loop: {rounds: 1.5}")),
    Case("true for a count", X, "loop.rounds: expected an integer", files=config("loop: {rounds: true}")),
    Case("0 rounds", X, "at least 1, found 0", files=config("loop: {rounds: 0}")),
    Case("a negative rate", X, "learning_rate: expected a number above 0", files=config("ensemble: {learning_rate: -1}")),
    Case("a number that is none", X, "expected a number above 0.0, found nan", files=config("ensemble: {learning_rate: .nan}")),
    Case("an infinite rate", X, "expected a number above 0.0, found inf", files=config("ensemble: {learning_rate: .inf}")),
    Case("an unknown choice", X, "draw: expected one of random, kmeans", files=config("strategy: {draw: dice}")),
    Case("no seed", X, "loop.seeds: expected a list", files=config("loop: {seeds: []}")),
    Case("a seed twice", X, "expected distinct seeds, found 3 twice", files=config("loop: {seeds: [3, 3]}")),
    Case("an unknown preset", X, "preset: expected one of", files=config("preset: papr")),
    Case("a configuration that extends itself", X, "x.yaml: extends itself", files=config("extends: x.yaml")),
    Case("one that extends nothing", X, "extends: gone.yaml: no such configuration", files=config("extends: gone.yaml")),
    Case("variants as a list", X, "variants: expected a mapping", files=config("variants: [a]")),
    Case("no variant", X, "variants: expected a mapping", files=config("variants: {}")),
    Case("a variant that is a number", X, "variants.a: expected a mapping", files=config("variants: {a: 3}")),
    Case("an unknown key in a variant", X, "strategy.nam: unknown key", files=config("variants: {a: {strategy.nam: x}}")),
    Case("an unknown strategy", f"{X} --set strategy.name=besar", "did you mean besra?", files=config("")),
    Case("an unknown classifier", f"{X} --set model.name=text_cn", "text_cn", files=config("")),
    Case("--set without =", f"{X} --set loop.rounds", "--set: expected section.key=value", files=config("")),
    Case("--set of an unknown key", f"{X} --set loop.round=3", "did you mean loop.rounds?", files=config("")),
    Case("--set of a wrong value", f"{X} --set loop.rounds=x", "--set: loop.rounds: expected an integer", files=config("")),
    Case("--set of half a list", f"{X} --set 'loop.rounds=[1'", "loop.rounds: expected an integer", files=config("")),
    Case("no strategy", f"{X} --set strategy.name=", "strategy.name: expected names", files=config("")),
    Case("a strategy twice", f"{X} --set strategy.name=crab,crab", "expected each name once", files=config("")),
    Case("--only of no variant", "train --config demo.yaml --only x --output out", "--only x: demo.yaml has"),
    Case("two configurations of one name", "train --config x.yaml a/x.yaml --output out", "expected files of different names", files=config("") | {"a/x.yaml": ""}),
    Case("half of a device setting", f"{X} --set devices.process=1", "devices.process: expected devices.coordinator", files=config("")),
    Case("a coordinator without a number", f"{X} --set devices.coordinator=127.0.0.1:1", "devices.processes: expected a number", files=config("")),
    # data of a run
    Case("no training file", X, "data.train: no such file", files=data("") | {"x.yaml": 'data: {train: gone.jsonl, test: test.jsonl}'}),
    Case("no test file", X, "data.test: expected a file to report on", files=config("data: {train: test.jsonl}")),
    Case("a test file alone", X, "data.train: expected a file", files=config("data: {test: test.jsonl}")),
    Case("a folder as training file", X, "data.train: expected a file, found a folder", files=config("data: {train: runs, test: test.jsonl}")),
    Case("training and test file the same", X, "expected another file than data.train", files=config("data: {train: test.jsonl, test: ./test.jsonl}")),
    Case("an empty training file", X, "bad.jsonl: no documents in this file", files=data("")),
    Case("half a line of JSON", X, "bad.jsonl:2: malformed JSON", files=data(LINE + '{"text": "x"')),
    Case("a number that Python refuses", X, "bad.jsonl:2: malformed JSON: Exceeds the limit", files=data(LINE + '{"text": "x", "id": ' + "9" * 5000 + "}")),
    Case("a list instead of an object", X, "bad.jsonl:1: expected one JSON object a line, found list", files=data("[1]\n")),
    Case("neither text nor tokens", X, 'bad.jsonl:1: expected the field "doc_token" or "text"', files=data('{"body": "x"}')),
    Case("a number as text", X, '"text" must be a string, found int', files=data('{"text": 3, "labels": []}')),
    Case("no labels field", X, 'expected the field "labels", which is missing', files=data('{"text": "x"}')),
    Case("one label as a string", X, '"labels" must be a list of strings, found str', files=data('{"text": "x", "labels": "a"}')),
    Case("a number as label", X, "must be a list of strings, found int in it", files=data('{"text": "x", "labels": [1]}')),
    Case("an empty label", X, "a label must not be empty", files=data('{"text": "x", "labels": [""]}')),
    Case("an empty token", X, 'a token in "doc_token" must not be empty', files=data('{"doc_token": [""], "doc_label": []}')),
    Case("texts and tokens in one file", X, 'either "doc_token" or "text" lines, found both', files=data(LINE + '{"doc_token": ["x"], "doc_label": []}')),
    Case("an id twice", X, 'bad.jsonl:2: id "7" is also that of line 1', files=data('{"id": 7, "text": "x", "labels": ["a"]}\n' * 2)),
    Case("ids on some lines", X, 'either every document has an "id" or none has', files=data(LINE + '{"id": 7, "text": "x", "labels": ["a"]}')),
    Case("a list as id", X, '"id" must be a string or an integer', files=data('{"id": [], "text": "x", "labels": ["a"]}')),
    Case("half a surrogate pair", X, "half of a surrogate pair", files=data('{"text": "\\ud800", "labels": ["a"]}')),
    Case("a file in Latin-1", X, "iconv -f CP1252 -t UTF-8 bad.jsonl", files=data('{"text": "é"}'.encode("latin-1"))),
    Case("a file in UTF-16", X, "iconv -f UTF-16 -t UTF-8 bad.jsonl", files=data(LINE.encode("utf-16"))),
    Case("a gzip file that is none", X, "broken gzip file", files=data(b"plain text", "bad.jsonl.gz")),
    Case("a file of another kind", X, "expected a name ending in .jsonl", files=data("x", "bad.xlsx")),
    Case("CSV without the text column", X, 'no column "text" in the header, which has txt, labels; did you mean "txt"?', files=data("txt,labels\nx,a\n", "bad.csv")),
    Case("a CSV row too long", X, "bad.csv:3: expected 2 columns as in the header, found 3", files=data("text,labels\nx,a\ny,b,c\n", "bad.csv")),
    Case("a quote left open in CSV", X, "bad.csv:2: malformed CSV", files=data('text,labels\n"x,a\ny,b\n', "bad.csv")),
    Case("two columns of one name", X, "two columns of one name", files=data("text,text,labels\n", "bad.csv")),
    Case("a delimiter of two characters", f"{X} --set 'data.csv_delimiter=;;'", "csv_delimiter: expected one character", files=data("text,labels\nx,a\n", "bad.csv")),
    Case("no label in the training file", X, "no document of the training file has a label", files=data('{"text": "x", "labels": []}\n')),
    Case("more validation than documents", f"{X} --set preset=paper", "data.validation_size: expected fewer than the 1 training documents", files=data(LINE)),
    Case("a first set larger than the pool", X, "loop.initial_size: expected at most the 20 documents", files=data("".join(json.dumps({"text": f"w{n}", "labels": ["a"]}) + "\n" for n in range(20)))),
    Case("a corpus that cannot be made", f"{X} --set data.synthetic.mean_ir=1.01", "synthetic.mean_ir", files=config("")),
    Case("an encoder folder that is not there", f"{X} --set model.name=frozen --set model.pretrained=./gone", "gone: no such folder", files=config("")),
    # own vectors
    Case("vectors that are not there", X, "data.test_vectors: no such file", files=vectors(VECTORS, "gone.npy")),
    Case("vectors of too few documents", X, "v.npy: expected 9 rows, one a document of the train file, found 8", files=vectors(VECTORS[:8])),
    Case("a vector that is not a number", X, "v.npy: row 4 (from 0): expected numbers, found nan", files=vectors(NAN)),
    Case("one number a document", X, "v.npy: expected one row a document, [N, D], found (9,)", files=vectors(VECTORS[:, 0])),
    Case("vectors in float64", X, "v.npy: expected float32, found float64", files=vectors(VECTORS.astype(float))),
    Case("vectors of another length", X, "t.npy: expected vectors of 2 numbers", files=vectors(VECTORS[:, :2].copy())),
    Case("vectors cut short", X, "v.npy: no whole .npy file", files=vectors(npy(VECTORS)[:-4])),
    Case("something else as vectors", X, "v.npy: no whole .npy file", files=vectors(b"1,2,3")),
    Case("objects as vectors", X, "v.npy: no whole .npy file", files=vectors(np.array([[None]]))),
    Case("vectors for a classifier of words", X, "data.vectors: expected model.name frozen, found text_cnn", files=vectors(VECTORS, model="text_cnn")),
    Case("vectors of a project, gone", f"{INIT} --labels a --vectors v.npy", "data.vectors: no such file"),
    # the folder of a run
    Case("an output that is a file", "train --config x.yaml --output pool.csv", "pool.csv", files=config("")),
    Case("an output with checkpoints of others", X, "holds checkpoints, which no run wrote", files=config("") | {"out/checkpoints/model.bin": "x"}),
    Case("a run.json cut short", X, "run.json: damaged, or of another program", files=config("") | {"out/run.json": "{"}),
    Case("a run.json of another program", X, "run.json: damaged, or of another program", files=config("") | {"out/run.json": '{"config": 3}'}),
    Case("a run of another configuration", "train --config x.yaml --output runs/b", "holds a run of another config", files=config("")),
    # settings out of range
    Case("no member", f"{SET} ensemble.members=0", "ensemble.members: expected an integer at least 1", files=NOTHING),
    Case("batches of nothing", f"{SET} ensemble.batch_size=0", "batch_size: expected an integer at least 1", files=NOTHING),
    Case("queries of nothing", f"{SET} loop.query_size=0", "query_size: expected an integer at least 1", files=NOTHING),
    Case("a fraction above 1", f"{SET} strategy.keep_fraction=2", "a number above 0.0 at most 1.0, found 2", files=NOTHING),
    Case("a fraction of nothing", f"{SET} strategy.keep_fraction=0", "a number above 0.0 at most 1.0, found 0", files=NOTHING),
    Case("an exponent below 0", f"{SET} strategy.alpha=-5", "strategy.alpha: expected a number at least 0.0", files=NOTHING),
    Case("no candidate", f"{SET} strategy.candidate_limit=0", "candidate_limit: expected an integer or nothing", files=NOTHING),
    Case("documents of no token", f"{SET} data.max_tokens=0", "max_tokens: expected an integer at least 1", files=NOTHING),
    Case("fewer than no validation", f"{SET} data.validation_size=-1", "validation_size: expected an integer", files=NOTHING),
    Case("dropout above 1", f"{SET} model.dropout=1.5", "at most 0.95, found 1.5", files=NOTHING),
    Case("an unknown threshold", f"{SET} ensemble.threshold=maybe", "expected one of learnt, half", files=NOTHING),
    Case("an unknown choice of parameters", f"{SET} ensemble.keep=first", "expected one of last, best", files=NOTHING),
    Case("an unknown schedule", f"{SET} ensemble.schedule=step", "expected one of constant, warmup_linear", files=NOTHING),
    Case("patience below 0", f"{SET} ensemble.patience=-1", "patience: expected an integer at least 1", files=NOTHING),
    Case("decay below 0", f"{SET} ensemble.weight_decay=-1", "weight_decay: expected a number at least 0.0", files=NOTHING),
    Case("a rate too large to write", f"{SET} ensemble.learning_rate=1e400", "expected a number above 0.0, found '1e400'", files=NOTHING),
    Case("a mapping for a number", f"{SET} 'loop.rounds={{a: 1}}'", "loop.rounds: expected an integer", files=NOTHING),
    Case("a word as seed", f"{SET} loop.seeds=a", "each an integer at least 0", files=NOTHING),
    Case("a seed below 0", f"{SET} loop.seeds=-1", "each an integer at least 0", files=NOTHING),
    Case("true as strategy", f"{SET} strategy.name=true", "found 'true'", files=NOTHING),
    Case("predictions of no document at a time", f"{SET} devices.predict_batch=0", "predict_batch: expected", files=NOTHING),
    Case("fewer than no member at once", f"{SET} devices.members_at_once=-1", "members_at_once: expected", files=NOTHING),
    Case("a setting of another section", f"{SET} devices.precision=bfloat16", "did you mean model.precision?", files=NOTHING),
    Case("a strategy of an unknown package", f"{SET} strategy.name=other.Random", "found 'other.Random'", files=NOTHING),
    Case("no encoder", f"{SET} model.name=frozen --set model.pretrained=", "model.pretrained: expected a folder or a name", files=NOTHING),
    Case("a tokenizer that is not there", f"{SET} data.tokenizer=./gone", "gone: no such folder", files=NOTHING),
    Case("an alias of nothing", X, "x.yaml:1:7: not valid YAML: found undefined alias", files=config("loop: *a")),
    Case("a section inside itself", X, "x.yaml:1:7: not valid YAML", files=config("loop: &a {rounds: *a}")),
    Case("a configuration in UTF-16", X, "x.yaml: not valid YAML", files={"x.yaml": "loop: {rounds: 3}".encode("utf-16")}),
    Case("quiet and JSON", f"{X} --quiet --json", "not allowed with argument --quiet", 2, NOTHING),
    Case("no name after --config", "train --config", "expected at least one argument", 2),
    Case("validation and test file the same", X, "data.validation: expected another file than data.test", files=data(LINE * 30, validation="test.jsonl")),
    Case("a gzip file cut short", X, "broken gzip file", files=data(CUT_GZIP, "bad.jsonl.gz")),
    Case("CSV without the label column", X, 'no column "labels" in the header, which has text, lab', files=data("text,lab\nx,a\n", "bad.csv")),
    # devices and demo
    Case("devices of no configuration", "devices --config gone.yaml", "no such configuration file"),
    Case("an unknown key, of devices", "devices --config demo.yaml --set loop.round=3", "did you mean loop.rounds?"),
    Case("a wrong value, of devices", "devices --config demo.yaml --set loop.seeds=x", "loop.seeds: expected a list"),
    Case("a demo where a file is", "demo --output pool.csv", "pool.csv"),
    Case("a word too many", "demo now", "unrecognized arguments: now", 2),
    # init
    Case("texts that are not there", "init --project new --texts gone.csv --labels a", "gone.csv: no such file"),
    Case("a folder of texts", "init --project new --texts runs --labels a", "expected a file, found a folder"),
    Case("a spreadsheet file", "init --project new --texts t.xlsx --labels a", "expected a name ending in", files={"t.xlsx": "x"}),
    Case("an empty file of texts", "init --project new --texts t.csv --labels a", 't.csv:1: expected a header with "text"', files={"t.csv": ""}),
    Case("a header alone", "init --project new --texts t.csv --labels a", "no documents in this file", files={"t.csv": "text\n"}),
    Case("another text column", "init --project new --texts t.csv --labels a", "--text-column names another column", files={"t.csv": "body\nx\n"}),
    Case("no labels", INIT, "one of the arguments --labels --labels-file is required", 2),
    Case("empty labels", f"{INIT} --labels ''", "expected distinct labels, at least one"),
    Case("a comma too many", f"{INIT} --labels 'a,,b'", "'' cannot be a label"),
    Case("a label twice", f"{INIT} --labels a,a", "expected distinct labels"),
    Case("labels that differ in capitals", f"{INIT} --labels sport,Sport", "differ in capitals only"),
    Case("one label in two Unicode forms", f"{INIT} --labels 'caf\u00e9,cafe\u0301'", "expected distinct labels"),
    Case("a label with a line break", f"{INIT} --labels '\"a\nb\"'", "without line breaks"),
    Case("labels in several lines", f"{INIT} --labels 'a\nb'", "--labels-file takes a name a line"),
    Case("a label named skipped", f"{INIT} --labels skipped", '"skipped" marks skipped documents'),
    Case("a label named withdrawn", f"{INIT} --labels withdrawn", 'other than "-" and "withdrawn"'),
    Case("a label named -", f"{INIT} --labels=-", 'other than "-"'),
    Case("a label with ;", f"{INIT} --labels 'a;b'", 'expected a name without ";"'),
    Case("a file of labels that is not there", f"{INIT} --labels-file gone.txt", "gone.txt"),
    Case("a file of labels in Latin-1", f"{INIT} --labels-file l.txt", "l.txt:1: expected utf-8", files={"l.txt": "é".encode("latin-1")}),
    Case("a project that is there already", "init --project labelling --texts pool.csv --labels a", "there is a project already"),
    Case("answers without their project", "init --project lost --texts pool.csv --labels a", "holds answers of a project whose project.json is gone", files={"lost/labels.jsonl": "{}\n"}),
    Case("a project folder that is a file", "init --project pool.csv --texts pool.csv --labels a", "pool.csv"),
    Case("an unknown setting", f"{INIT} --labels a --set loop.x=1", "loop.x: unknown key"),
    Case("an encoder without config.json", FROZEN, "no config.json in this folder", files={"enc/vocab.txt": "x"}),
    Case("an encoder of an unknown kind", FROZEN, "model_type: expected", files=encoder('{"model_type": "gpt2"}')),
    Case("an encoder's config.json cut short", FROZEN, "config.json: malformed JSON", files=encoder('{"model_ty')),
    Case("an encoder's weights cut short", FROZEN, "model.safetensors: no safetensors file, or cut short", files=encoder("{}", model_safetensors=b"\x10\0\0\0\0\0\0\0{")),
    Case("an empty file of labels", f"{INIT} --labels-file l.txt", "l.txt: expected a label a line", files={"l.txt": " \n"}),
    Case("labels and a file of labels", f"{INIT} --labels a --labels-file l.txt", "not allowed with argument --labels", 2, {"l.txt": "a"}),
    Case("an encoder that is not there", f"{INIT} --labels a --encoder ./gone", "gone: no such folder"),
    Case("an id twice among the texts", "init --project new --texts t.csv --labels a", 't.csv:3: id "1" is also that of line 2', files={"t.csv": "id,text\n1,x\n1,y\n"}),
    Case("texts that are all empty", "init --project new --texts t.csv --labels a", "t.csv: expected texts, found 2 empty ones", files={"t.csv": "id,text\n1,\n2,\n"}),
    # suggest, status and predict
    Case("no project", "suggest --project gone --output o.csv", "gone: no labelling project here"),
    Case("0 documents", "suggest -n 0 --output o.csv", "expected a whole number above 0, found '0'", 2),
    Case("a word for a number", "suggest -n ten --output o.csv", "expected a whole number above 0", 2),
    Case("no output", "suggest", "--output", 2),
    Case("an output of another kind", "suggest --output o.txt", "expected a name ending in .csv, .jsonl, .json"),
    Case("an output inside the project", "suggest --output labelling/o.csv", "inside the project, whose files are its own"),
    Case("an output that is a folder", "suggest --output o.csv", "expected a file to write, found a folder", files={"o.csv/x": ""}),
    Case("an output below a file", "suggest --output pool.csv/o.csv", "cannot be written"),
    Case("an output with answers not added yet", "suggest --output o.csv", "holds answers that were not added yet", files={"o.csv": "id,labels\nd3,a\n"}),
    Case("an output that is somebody else's table", "suggest --output o.csv", "a file of another kind", files={"o.csv": "x,y\n1,2\n"}),
    Case("predictions for Label Studio", "predict --output p.json", "expected a name ending in .csv, .jsonl"),
    Case("predictions without a label", "predict --project empty --output p.csv", "expected a labelled document with a label"),
    Case("status of no project", "status --project gone", "no labelling project here"),
    Case("suggestions over the texts", "suggest --output pool.csv", "a file of another kind"),
    Case("predictions of no project", "predict --project gone --output p.csv", "no labelling project here"),
    Case("predictions without a place", "predict", "--output", 2),
    Case("predictions inside the project", "predict --output labelling/p.csv", "inside the project"),
    Case("predictions over the texts", "predict --output pool.csv", "a file of another kind"),
    Case("a word after status", "status now", "unrecognized arguments: now", 2),
    # add
    Case("a file that is not there", "add gone.csv", "gone.csv: no such file"),
    Case("a file of another kind to add", "add in.xlsx", "expected a name ending in", files={"in.xlsx": ""}),
    Case("another header", ADD, 'in.csv:1: expected a header with "id", "labels"', files={"in.csv": "id,label\nd1,a\n"}),
    Case("an empty table", ADD, "found an empty line", files={"in.csv": ""}),
    Case("an unknown id", ADD, 'in.csv:2: unknown id "x9"', files={"in.csv": "id,labels\nx9,a\n"}),
    Case("an id that lost its zeros", ADD, '"007" is known: spreadsheets drop zeros', files={"in.csv": "id,labels\n7,a\n"}),
    Case("one document twice", ADD, 'id "d3" twice, first at in.csv:2', files={"in.csv": "id,labels\nd3,a\nd3,a\n"}),
    Case("an id twice with other labels", ADD, "twice, with other labels", files={"in.csv": "id,labels\nd3,a\nd3,b\n"}),
    Case("an unknown label", ADD, 'unknown label "bb"; did you mean "b"?', files={"in.csv": "id,labels\nd3,bb\n"}),
    Case("labels separated by commas", ADD, 'labels are separated by ";"', files={"in.csv": 'id,labels\nd3,"a,b"\n'}),
    Case("separators alone", ADD, 'expected labels, "-" for none', files={"in.csv": "id,labels\nd3, ;\n"}),
    Case("another answer than before", ADD, "--replace takes the new answer", files={"in.csv": "id,labels\nd0,b\n"}),
    Case("a withdrawal without --replace", ADD, '--replace takes the new answer', files={"in.csv": "id,labels\nd0,withdrawn\n"}),
    Case("answers of another project", ADD, "--ignore-texts goes by id alone", files={"in.csv": "id,text,labels\nd3,other words,a\n"}),
    Case("a column sorted apart", ADD, "a column sorted apart from the others", files={"in.csv": "id,text,labels\nd3,words 4,a\nd4,words 3,b\n"}),
    Case("predictions as answers", ADD, "`predict` wrote these labels", files={"in.csv": "id,labels,by\nd3,a,model\n"}),
    Case("a quote left open", ADD, 'in.csv:3: malformed CSV: unexpected end of data; the row goes on for 1 lines: is a quote (") left open in it?', files={"in.csv": 'id,labels\nd3,a\nd4,"b\nd5,a\n'}),
    Case("a table in Latin-1", ADD, "in.csv:2: expected utf-8 text, found byte 0xe9 at column 4", files={"in.csv": "id,labels\nd3,é\n".encode("latin-1")}),
    Case("JSON lines without a line", "add in.jsonl", "in.jsonl: no lines in this file", files={"in.jsonl": ""}),
    Case("JSON lines without id", "add in.jsonl", 'expected the field "id"', files={"in.jsonl": '{"labels": []}'}),
    Case("JSON lines without labels", "add in.jsonl", 'expected the field "labels"', files={"in.jsonl": '{"id": "d3"}'}),
    Case("labels as a string", "add in.jsonl", "to be a list of strings", files={"in.jsonl": '{"id": "d3", "labels": "a"}'}),
    Case("an export cut short", "add in.json", "in.json: malformed JSON", files={"in.json": "[{"}),
    Case("an export that is no list", "add in.json", "expected a Label Studio export", files={"in.json": "{}"}),
    Case("an export as JSON-MIN", "add in.json", "(not JSON-MIN)", files={"in.json": '[{"text": "x"}]'}),
    Case("annotators who disagree", "add in.json", "annotations disagree", files={"in.json": json.dumps([{"data": {"document_id": "d3"}, "annotations": [{"result": []}, {"result": [{"type": "choices", "value": {"choices": ["a"]}}]}]}])}),
    Case("nothing to add", "add", "required: file", 2),
    Case("the texts as answers", "add pool.csv", 'expected a header with "id", "labels"'),
    Case("answers into no project", "add in.csv --project gone", "no labelling project here", files={"in.csv": "id,labels\nd1,a\n"}),
    # a project that was damaged
    Case("project.json cut short", "status --project hurt", "project.json: damaged", files={"hurt/project.json": "{"}),
    Case("a project of a later format", "status --project hurt", "expected format 1, found 2", files={"hurt/project.json": '{"format": 2, "labels": ["a"]}'}),
    Case("texts.jsonl gone", "status --project hurt", "texts.jsonl: no such file", files={"hurt/project.json": '{"format": 1, "labels": ["a"]}', "hurt/config.yaml": "{}"}),
    Case("config.yaml gone", "status --project hurt", "config.yaml: cannot be read", files={"hurt/project.json": '{"format": 1, "labels": ["a"]}', "hurt/texts.jsonl": LINE}),
    Case("texts.jsonl changed", "status --project altered", "texts.jsonl: changed since the project was made"),
    Case("a label changed in the answers", "status --project swapped", "labels.jsonl:1: not an answer: the content is not what was written"),
    Case("half a line of answers", "status --project torn", "labels.jsonl:2: not an answer"),
    # report
    Case("a report of nothing", "report gone --output page", "gone: no records.jsonl in it or below it"),
    Case("no place for a report", "report runs", "expected --output FOLDER", 2),
    Case("records cut short", "report runs/a --output page", "records.jsonl:1: not a whole JSON object", files={"runs/a/records.jsonl": '{"seed"'}),
    Case("records of another program", "report runs/a --output page", "records.jsonl:1: expected a record with", files={"runs/a/records.jsonl": "{}"}),
    Case("no record", "report runs/a --output page", "records.jsonl: no record in it", files={"runs/a/records.jsonl": ""}),
    Case("bytes as records", "report runs/a --output page", "records.jsonl:1: not a whole JSON object", files={"runs/a/records.jsonl": b"\xff"}),
    Case("a score that is no number", "report runs/a --output page", '"micro_f1" is nan', files=record(micro_f1=float("nan"))),
    Case("a seed that is no number", "report runs/a --output page", '"seed" of a record cannot be', files=record(seed="x")),
    Case("a run that is not there", "report runs/b --output page --only x", "--only x:"),
    Case("a reference that is not there", "report runs/b --output page --reference x", "--reference x: expected one of"),
    Case("one run twice", "report runs/b runs/b --output page", "a second run named"),
    Case("a report where a file is", "report runs/b --output pool.csv", "pool.csv"),
    Case("a record twice", "report runs/a --output page", "records.jsonl:2: round 0 of seed 0 twice", files={"runs/a/records.jsonl": 2 * (json.dumps(FIRST) + "\n")}),
    Case("a record without a field", "report runs/a --output page", "expected a record with labelled", files={"runs/a/records.jsonl": json.dumps({k: v for k, v in FIRST.items() if k != "labelled"})}),
    Case("a table of texts as a run", "report pool.csv --output page", "pool.csv:1: malformed JSON"),
    Case("an unknown table", "report runs/b --markdown t.md", "table 'sizes': expected one of areas", files={"t.md": "<!-- table sizes -->\n<!-- end -->\n"}),
    Case("a table without its end", "report runs/b --markdown t.md", "expected <!-- end --> on a line after it", files={"t.md": "<!-- table areas -->\n"}),
    Case("a table of runs that are not there", "report runs/b --markdown t.md", "t.md: no place for a table of these runs", files={"t.md": "<!-- table areas: nobody -->\n<!-- end -->\n"}),
    Case("tables where a folder is", "report runs/b --markdown runs", "runs: Is a directory"),
    Case("records kept where a file is", "report runs/b --keep pool.csv", "pool.csv: File exists"),
    # prepare
    Case("an unknown data set", "prepare imdb", "invalid choice", 2),
    Case("statistics of nothing", "prepare stats gone.jsonl", "gone.jsonl: no such file"),
    Case("statistics of a folder", "prepare stats runs", "expected a file, found a folder"),
    Case("statistics of a broken file", "prepare stats t.jsonl", "t.jsonl:1: malformed JSON", files={"t.jsonl": "oops"}),
    Case("a delimiter of two characters, of statistics", "prepare stats test.jsonl --csv-delimiter ';;'", "csv_delimiter: expected one"),
    Case("no separator of labels", "prepare stats test.jsonl --label-separator ''", "label_separator: expected"),
    Case("resampling a folder into itself", "prepare resample --input . --output . --mean-ir 5", "expected another folder than --input"),
    Case("writing over a file", "prepare synthetic --output .", "--force"),
    Case("an imbalance below 1", "prepare resample --input . --output o --mean-ir 0", "expected a number >= 1", 2),
    Case("an imbalance that is no number", "prepare resample --input . --output o --mean-ir nan", "expected a number >= 1", 2),
    Case("a negative seed", "prepare resample --input . --output o --mean-ir 5 --seed -1", "expected a whole number >= 0", 2),
    Case("resampling nothing", "prepare resample --input gone --output o --mean-ir 5", "train.jsonl: no such file"),
    Case("no roots", "prepare synthetic --output o --roots 0", "roots: expected"),
    Case("an imbalance out of reach", "prepare synthetic --output o --mean-ir 1.01", "synthetic.mean_ir"),
    Case("too few documents for the rarest label", "prepare synthetic --output o --documents 20 --mean-ir 60", "synthetic"),
    Case("an output that is a file, of prepare", "prepare synthetic --output pool.csv", "expected a folder, found a file", 2),
    Case("raw files that are not there: RCV1", "prepare rcv1 --raw runs --output o", "lyrl2004"),
    Case("raw files that are not there: UKLEX", "prepare uklex --raw runs --output o", "zenodo"),
    Case("raw files that are not there: EURLEX", "prepare eurlex --raw runs --output o", "eurlex"),
    Case("raw files that are not there: MIMIC", "prepare mimic --raw runs --output o", "physionet"),
    Case("raw files that are not there: Reuters", "prepare reuters --raw runs --output o", "archive.ics.uci.edu"),
    Case("raw files that are not there: GoEmotions", "prepare goemotions --raw runs --output o", "google-research"),
    Case("raw files that are not there: SemEval", "prepare semeval2018ec --raw runs --output o", "codalab"),
    Case("raw files that are not there: MIMIC-IV", "prepare mimic4_icd10 --raw runs --output o", "mimiciv"),
    Case("no raw folder named", "prepare reuters --output o", "required: --raw", 2),
    Case("no documents to train on", "prepare reuters --raw runs --output o --train-size 0", "expected a whole number above 0", 2),
    Case("a broken SGML file", "prepare reuters --raw r --output o", "r/reut2-000.sgm: expected stories in <REUTERS", files={f"r/reut2-{n:03}.sgm": "<REUTERS" for n in range(22)}),
    Case("a broken table of emotions", "prepare goemotions --raw r --output o", "r/train.tsv:1: expected text, numbers below 1 and an id", files={f"r/{n}": "x\n" for n in ("train.tsv", "dev.tsv", "test.tsv", "emotions.txt")}),
    Case("files of the hub without a split", "prepare hub ./runs --output o", "expected files named after train and test"),
    Case("a column of the hub that is not there", "prepare hub ./h --output o --texts-column txt", 'h/train.jsonl:1: no column "txt", found text, labels', files={"h/train.jsonl": LINE, "h/test.jsonl": LINE}),
    Case("no imbalance", "prepare resample --input . --output o", "required: --mean-ir", 2),
    Case("resampling to no label", "prepare resample --input . --output o --mean-ir 5 --labels 0", "expected a whole number above 0", 2),
    Case("no documents to generate", "prepare synthetic --output o --documents 0", "synthetic.documents: expected an integer at least 10"),
    Case("statistics without a file", "prepare stats", "required: files", 2),
    # benchmark
    Case("no benchmark", "benchmark", "expected a benchmark", 2),
    Case("an unknown benchmark", "benchmark speed", "invalid choice", 2),
    Case("an unknown size", "benchmark scoring --preset huge", "invalid choice", 2),
    Case("reports that are not there", "benchmark --compare a.json b.json", "a.json: expected a report", 2),
    Case("a report that is none", "benchmark --compare x.json x.json", "x.json: expected a report", 2, {"x.json": "{}"}),
    Case("a report below a file", "benchmark scoring --json pool.csv/r.json", "pool.csv/r.json"),
    Case("an unknown chip", "benchmark compile --chip v99", "expected one of v5e, v6e, a100, h100, rtx3090, found 'v99'"),
    Case("no chip", "benchmark compile", "required: --chip", 2),
    Case("no member to compile", "benchmark compile --chip v5e --members 0", "--members: expected a number above 0", 2),
    Case("one report to compare", "benchmark --compare a.json", "expected 2 arguments", 2),
    Case("an unknown classifier, of benchmark", "benchmark fit --model cnn", "invalid choice: 'cnn'", 2),
    Case("no repeat", "benchmark fit --repeats 0", "--repeats: expected a number above 0, found 0", 2),
    Case("no labelled document", "benchmark fit --labelled 0 5", "--labelled: expected a number above 0, found 0", 2),
    Case("a round of no documents", "benchmark scaling --documents 0", "--documents: expected a number above 0, found 0", 2),
    Case("a round of no configuration", "benchmark round --config gone.yaml", "no such configuration file"),
]  # fmt: skip


def table() -> str:
    """The cases as Markdown."""
    clean = lambda text: text.replace("|", "\\|").replace("\n", "\\n").replace("`", "'")
    rows = [
        f"| {number} | {clean(one.what)} | `crabjax {clean(one.typed)}` | `{clean(one.said)}` "
        f"| {one.status} |"
        for number, one in enumerate(CASES, start=1)
    ]
    return "\n".join(
        ["| | mistake | typed | said, among others | status |", "|---|---|---|---|---|", *rows]
    )


def write_table(path: Path) -> None:
    """Puts the table between its marks in a Markdown file."""
    text = path.read_text(encoding="utf-8")
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    path.write_text(f"{text[:start]}\n{table()}\n{text[end:]}", encoding="utf-8")


if __name__ == "__main__":
    write_table(Path(sys.argv[1]))
