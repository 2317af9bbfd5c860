"""Tables written from records: what they say, where they are put, what is kept of records."""

import gzip
import json
import shutil

import pytest
from scipy import stats

from crabjax.cli.main import main
from crabjax.report.find import find_runs
from crabjax.report.markdown import MarkdownError, fill, write_markdown
from crabjax.report.records import write_records

LIFTS = {"random": (0.0, 0.0, 0.0), "crab": (0.1, 0.11, 0.12), "random,_members_alike": (-0.2,) * 3}


def run(name, lifts, member_init="independent", data="news", model="text_cnn"):
    return [
        {
            "seed": seed,
            "round": r,
            "labelled": 10 * (r + 1),
            "strategy": name,
            "model": model,
            "data": data,
            "micro_f1": 0.1 * r + 0.01 * seed + lift + 0.3,
            "macro_f1": 0.1 * r + 0.3,
            "mean_average_precision": 0.5 + lift,
            "selected": [1, 2] if r < 2 else [],
            "mean_ir_selected": 2.0 - lift if r < 2 else None,
            "hard_left": 5,
            "negative_left": 1,
            "members": {"micro_f1": [0.1, 0.3]},
            "failed_epochs": [-1, -1],
            "seconds": {"fit": 2.0, "query": 0.25},
            "member_init": member_init,
        }
        for r in range(3)
        for seed, lift in enumerate(lifts)
    ]


@pytest.fixture
def folder(tmp_path):
    """Runs as `crabjax train` leaves them: how members start stands in run.json alone."""
    runs = {name: (lifts, "independent") for name, lifts in LIFTS.items()}
    runs["random,_members_alike"] = (LIFTS["random,_members_alike"], "same")
    runs["paper"] = ((-0.1, -0.11, -0.09), "same")
    for data in ("news", "laws"):
        for name, (lifts, member_init) in runs.items():
            place = tmp_path / "runs" / data / name
            place.mkdir(parents=True)
            records = [r for r in run(name, lifts, data=data) if r.pop("member_init")]
            write_records(place / "records.jsonl", records)
            about = {"config": {"ensemble": {"member_init": member_init}}}
            (place / "run.json").write_text(json.dumps(about))
    return tmp_path / "runs"


def table(folder, place):
    text = fill(
        f"before\n<!-- table {place} -->\nold\n<!-- end -->\nafter", find_runs([folder])
    ).text
    assert text.startswith(f"before\n<!-- table {place} -->\n|")
    assert text.endswith("|\n<!-- end -->\nafter")
    return [line.strip("| ").split(" | ") for line in text.splitlines()[2:-2]]


def test_areas_are_marked_against_the_random_picks_that_fit(folder):
    head, _, crab, paper, random, alike = table(folder, "areas")
    assert head[-2:] == ["laws", "news"]
    assert crab[1:] == ["**.520**+ / **.400**", "**.520**+ / **.400**"]
    # Below random picks, but above those whose members start as its own do.
    assert paper[:2] == ["CRAB, `preset: paper`", ".310+ / **.400**"]
    assert random[1] == ".410 / **.400**"
    assert alike[1] == ".210- / **.400**"


def test_marks_are_between_runs_of_one_pipeline(folder):
    """Else a threshold that was learnt would be taken for a better choice of documents."""
    for data in ("news", "laws"):
        about = folder / data / "crab" / "run.json"
        about.write_text(about.read_text().replace('{"member', '{"keep": "last", "member'))
    assert table(folder, "areas: crab | random")[2][1] == "**.520** / **.400**"
    for data in ("news", "laws"):
        about = folder / data / "random" / "run.json"
        about.write_text(about.read_text().replace('{"member', '{"keep": "last", "member'))
    assert table(folder, "areas: crab | random")[2][1] == "**.520**+ / **.400**"


def test_differences_have_the_interval_that_scipy_gives(folder):
    _, _, laws, _ = table(folder, "differences on laws | news: crab | random")
    low, high = stats.t.interval(0.95, 2, 0.11, stats.sem([0.10, 0.11, 0.12]))
    assert laws[:2] == ["laws", f"+.1100 [{low:+.4f}, {high:+.4f}]".replace("0.", ".")]
    head, _, row = table(folder, "pair on news: paper | random, members alike")
    assert head[0] == "CRAB, `preset: paper` minus random, members alike"
    assert row[1].startswith("+.1000 [")


def test_labels_and_precision_and_strategies(folder):
    _, _, crab, paper = table(folder, "labels: crab | paper | random")
    # Final of random .51; CRAB's mean curve .42, .52, .62 is there after .9 of the second ten.
    assert crab[1].startswith("19 [")
    assert paper[1] == "never [never, never]"
    assert table(folder, "average precision: crab | random")[2][1] == "**.610**+"
    _, _, crab, *_ = table(folder, "strategies on news: crab | random")
    assert crab[1] == ".520 / .400 / .610"
    assert crab[-1] == "0.250"
    assert table(folder, "selected")[2][1] == "**1.9** / 2.0"


def test_labels_for_what_the_earlier_pipeline_reached(folder):
    place = folder / "news" / "random_at_0.5,_validated"
    place.mkdir()
    records = [r for r in run("random", (-0.05, -0.04, -0.03)) if r.pop("member_init")]
    decided = [{"decided_micro_f1": 0.9, "decided_macro_f1": r["macro_f1"] - 0.1} for r in records]
    write_records(place / "records.jsonl", [a | b for a, b in zip(records, decided)])
    runs = "on news: crab | random | random at 0.5, validated"
    head, _, crab, random = table(folder, f"labels earlier macro {runs}")
    # Final .4, at its own threshold; the others are at .3, .4, .5, and have no other decisions.
    assert [cell.split(" ")[0] for cell in (crab[1], random[1])] == ["20", "20"]
    assert head[-1] == "news"
    assert table(folder, f"labels earlier {runs}")[2][1] == "never [never, never]"


def test_a_file_keeps_all_but_its_tables_and_places_of_other_runs(folder, tmp_path, capsys):
    path = tmp_path / "RESULTS.md"
    other = "<!-- table areas: mmc | random -->\nas it was\n<!-- end -->\n"
    path.write_text(f"# Results\n<!-- table areas on news: crab -->\n<!-- end -->\n{other}Rest.\n")
    assert main(["report", str(folder), "--markdown", str(path)]) == 0
    assert "1 tables; 1 of other runs left as they were" in capsys.readouterr().out
    text = path.read_text()
    assert text.startswith("# Results\n<!-- table areas on news: crab -->\n|  | news |\n")
    assert text.endswith(f"{other}Rest.\n")
    again = write_markdown(find_runs([folder]), path)
    assert again.text == text
    (tmp_path / "plain.md").write_text("no place")
    with pytest.raises(MarkdownError, match=r"plain\.md: no place for a table of these runs"):
        write_markdown(find_runs([folder]), tmp_path / "plain.md")
    with pytest.raises(MarkdownError, match="table 'heights': expected one of areas"):
        fill("<!-- table heights -->\n<!-- end -->", find_runs([folder]))


def test_a_place_that_does_not_end_swallows_nothing(folder):
    second = "<!-- table areas on laws -->\n<!-- end -->"
    with pytest.raises(MarkdownError, match="table areas on news -->: expected <!-- end -->"):
        fill(f"<!-- table areas on news -->\n\nprose\n\n{second}", find_runs([folder]))
    mention = "as `<!-- table areas -->` says\n"  # inside a line it is no place
    assert fill(mention + second, find_runs([folder])).text.startswith(mention)


def test_a_place_is_left_if_one_of_its_data_sets_lacks_a_run(folder):
    shutil.rmtree(folder / "laws" / "crab")
    place = "<!-- table areas on text_cnn: crab | random -->\nas it was\n<!-- end -->"
    found = fill(place, find_runs([folder]))
    assert (found.text, found.filled, found.left) == (place, 0, 1)


def test_kept_records_give_the_same_tables_and_page(folder, tmp_path):
    kept = tmp_path / "kept"
    assert main(["report", str(folder), "--keep", str(kept)]) == 0
    first = (kept / "news.text_cnn.jsonl.gz").read_bytes()
    assert main(["report", str(folder), "--keep", str(kept)]) == 0
    assert (kept / "news.text_cnn.jsonl.gz").read_bytes() == first
    from_runs = write_markdown(find_runs([folder]), tmp_path / "runs.md").text
    assert write_markdown(find_runs([kept]), tmp_path / "kept.md").text == from_runs
    assert main(["report", str(kept), "--output", str(tmp_path / "page")]) == 0
    (kept / "news.text_cnn.jsonl.gz").write_bytes(gzip.compress(b'{"run": "crab"}\n'))
    with pytest.raises(ValueError, match=r"news\.text_cnn\.jsonl\.gz:1: expected a record with"):
        find_runs([kept])
