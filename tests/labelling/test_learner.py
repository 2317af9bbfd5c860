"""Fit, ask, tell."""

import dataclasses

import jax
import numpy as np
import pytest
from sklearn.preprocessing import MultiLabelBinarizer

from crabjax.config import from_dict
from crabjax.ensemble import predict_features, predict_logits
from crabjax.labelling.answers import LabelError
from crabjax.labelling.learner import Learner
from crabjax.labelling.learning_curve import out_of_fold
from crabjax.labelling.saved_learner import SavedLearnerError
from crabjax.labelling.trained import NotFittedError
from crabjax.pool.diverse import diverse_picks
from crabjax.strategies import EmptyPoolError, Pool, get_strategy
from crabjax.thresholds import Unchosen, mean_threshold

NAMES = ("sport", "money", "science")
TINY = from_dict(
    {
        "data": {"max_tokens": 16},
        "devices": {"cache": False},
        "model": {"embedding": 8, "kernels": 16, "widths": [2], "dropout": 0.1},
        # As many members as folds: the ensemble and cross-validation share a program.
        "ensemble": {
            "members": 5,
            "epochs": 30,
            "patience": 15,
            "batch_size": 10,
            "learning_rate": 0.02,
        },
        "strategy": {"per_label": 20, "hard_size": 20},
        "loop": {"initial_size": 20, "query_size": 10, "rounds": 4, "seeds": [3]},
    }
)


def make_texts(count, seed=0):
    """Texts of three topics with words of their own; a text may have two topics."""
    generator = np.random.default_rng(seed)
    labels = generator.random((count, 3)) < 0.4
    texts = []
    for number, row in enumerate(labels):
        words = [f"{NAMES[k]}{generator.integers(6)}" for k in np.flatnonzero(row) for _ in "ab"]
        texts.append(" ".join([*words, f"filler{generator.integers(9)}", f"number{number}"]))
    return texts, labels


TEXTS, LABELS = make_texts(120)


def learner(texts=TEXTS, labelled=50, config=TINY):
    """One that has seen all texts; equal shapes share compiled programs."""
    new = Learner(config, NAMES)
    answers = [names_of_row(row) if place < labelled else None for place, row in enumerate(LABELS)]
    answers += [None] * (len(texts) - len(answers))
    return new.tell(texts, answers)


def names_of_row(row):
    return [name for name, present in zip(NAMES, row) if present]


@pytest.fixture(scope="module")
def trained():
    new = learner()
    new.predict_proba(TEXTS[:1])
    return new


def test_a_cold_start_says_so():
    suggestion = Learner(TINY, NAMES).ask(TEXTS, 7)
    assert suggestion.sources == ["diverse"] * 4 + ["random"] * 3
    assert len(set(suggestion.indices.tolist())) == 7
    assert np.isnan(suggestion.scores).all()
    assert np.isnan(suggestion.probabilities).all()


def test_a_cold_start_covers_a_sample_of_many_documents(monkeypatch):
    covered = []

    def noted(inputs, count, generator):
        covered.append(len(inputs))
        return diverse_picks(inputs, count, generator)

    monkeypatch.setattr("crabjax.pool.diverse.diverse_picks", noted)
    for limit, expected in ((30, 30), (3000, 117)):
        monkeypatch.setattr("crabjax.pool.diverse._COVERED", limit)
        suggestion = Learner(TINY, NAMES).ask(TEXTS, 6)
        assert len(set(suggestion.indices.tolist())) == 6
        assert covered.pop() == expected


def test_documents_without_any_label_leave_it_cold():
    cold = Learner(TINY, NAMES).tell(TEXTS[:15], [[]] * 15)
    suggestion = cold.ask(TEXTS, 5)
    assert set(suggestion.sources) == {"diverse", "random"}
    assert min(suggestion.indices) >= 15
    with pytest.raises(NotFittedError, match="found none"):
        cold.predict_proba(TEXTS)


def test_a_suggestion_has_scores_probabilities_and_sources(trained):
    suggestion = trained.ask(TEXTS, 10)
    assert len(set(suggestion.indices.tolist())) == 10
    assert min(suggestion.indices) >= 50  # the first 50 have an answer
    assert set(suggestion.sources) <= {"label_wise", "negative", "hard", "fill"}
    assert np.all(suggestion.scores >= 0)
    chosen = [TEXTS[index] for index in suggestion.indices]
    np.testing.assert_allclose(suggestion.probabilities, trained.predict_proba(chosen), rtol=1e-6)


def test_it_learns(trained):
    texts, labels = make_texts(60, seed=1)
    scores = trained.evaluate(texts, labels)
    assert scores["micro_f1"] > 0.7
    assert scores["mean_average_precision"] > 0.8
    assert all(isinstance(value, float) for value in scores.values())


def test_decisions_are_probabilities_above_the_threshold(trained):
    assert Learner(TINY, NAMES).predict([]).shape == (0, len(NAMES))
    texts, labels = make_texts(60, seed=1)
    predicted = trained.predict(texts)
    assert predicted.dtype == bool
    assert 0 < trained.threshold() < 1
    np.testing.assert_array_equal(predicted, trained.predict_proba(texts) > trained.threshold())
    micro = 2 * (predicted & labels).sum() / (predicted.sum() + labels.sum())
    assert trained.evaluate(texts, labels)["micro_f1"] == pytest.approx(micro)
    suggestion = trained.ask(TEXTS, 5)
    np.testing.assert_array_equal(
        suggestion.predicted, suggestion.probabilities > trained.threshold()
    )


def test_the_threshold_is_what_open_texts_ask_for():
    """From as many texts without an answer as with one, but at least 100."""
    known = Unchosen(LABELS[:50], 50)
    wanted = lambda probs: mean_threshold(probs, np.arange(len(probs)), known=known)
    more, _ = make_texts(100, seed=2)
    seen = learner()
    before, unseen = seen.threshold(), out_of_fold(seen._cases())
    both = np.concatenate([unseen, seen.predict_proba(TEXTS[50:])])
    assert before == pytest.approx(wanted(both), abs=0.01)
    assert 0 < learner(labelled=120).threshold() < 1
    seen.ask(more, 1)
    open_texts = seen.predict_proba(sorted({*TEXTS[50:], *more} - {*TEXTS[:50]}))
    assert before != seen.threshold() == pytest.approx(wanted(open_texts), abs=1e-6)
    ensemble = dataclasses.replace(TINY.ensemble, threshold="half")
    assert learner(config=dataclasses.replace(TINY, ensemble=ensemble)).threshold() == 0.5


def sampling(name="crab"):
    """Queries look at 30 of the open texts, and at anchors."""
    changes = {"per_label": None, "hard_size": None, "candidate_limit": 30, "name": name}
    strategy = dataclasses.replace(TINY.strategy, **changes)
    return dataclasses.replace(TINY, strategy=strategy)


@pytest.mark.parametrize("name", ["crab", "mmc", "coreset", "entropy"])
def test_only_what_a_query_looks_at_is_predicted(name, monkeypatch):
    """The picks are those of a strategy that draws its sample from predictions of all texts."""
    config, predicted = sampling(name), []

    def counted(model, params, inputs, batch):
        predicted.append(len(inputs))
        return predict_logits(model, params, inputs, batch)

    monkeypatch.setattr("crabjax.labelling.trained.predict_logits", counted)
    asked = learner(config=config)
    suggestion = asked.ask(TEXTS, 5)
    anchors, labelled = 7 if name == "crab" else 0, 50 if name in ("mmc", "coreset") else 0
    assert len(predicted) == 1
    assert 30 + labelled <= predicted[0] <= 30 + anchors + labelled
    encoded, params = asked._documents(), asked._ensemble()
    first = jax.tree.map(lambda leaf: leaf[0], params)
    pool = Pool(
        predict_logits(encoded.model, params, encoded.inputs, 256),
        LABELS,
        np.arange(50),
        np.arange(50, 120),
        predict_features(encoded.model, first, encoded.inputs, 256),
        round=3,
        rounds=4,
    )
    expected = get_strategy(name)(asked._key("query"), pool, 5, config.strategy)
    np.testing.assert_array_equal(suggestion.indices, expected.indices)
    chosen = [TEXTS[place] for place in suggestion.indices]
    np.testing.assert_allclose(suggestion.probabilities, asked.predict_proba(chosen), atol=1e-6)
    np.testing.assert_array_equal(suggestion.predicted, asked.predict(chosen))


def test_the_threshold_of_a_sample_does_not_depend_on_what_was_asked_before():
    more, _ = make_texts(100, seed=2)
    thresholds = set()
    for first in ("ask", "predict", "threshold"):
        new = learner([*TEXTS, *more], config=sampling())
        if first == "ask":
            new.ask(more[:40], 3)
        if first == "predict":
            new.predict_proba(TEXTS[:7])
        thresholds.add(new.threshold())
    assert len(thresholds) == 1


def test_equal_seeds_give_equal_results_and_others_do_not(trained):
    again = learner()
    np.testing.assert_array_equal(again.predict_proba(TEXTS), trained.predict_proba(TEXTS))
    np.testing.assert_array_equal(again.ask(TEXTS, 10).indices, trained.ask(TEXTS, 10).indices)
    assert again.fingerprint() == trained.fingerprint()
    other = learner(
        config=dataclasses.replace(TINY, loop=dataclasses.replace(TINY.loop, seeds=(4,)))
    )
    assert other.fingerprint() != trained.fingerprint()
    assert np.abs(other.predict_proba(TEXTS) - trained.predict_proba(TEXTS)).max() > 1e-3


def test_a_binarizers_matrix_does_as_lists_do(trained):
    matrix = MultiLabelBinarizer(classes=NAMES).fit_transform([names_of_row(row) for row in LABELS])
    by_matrix = Learner(TINY, NAMES).tell(TEXTS, [None] * len(TEXTS))
    by_matrix.tell(np.array(TEXTS[:50]).tolist(), matrix[:50])
    np.testing.assert_array_equal(by_matrix.predict_proba(TEXTS), trained.predict_proba(TEXTS))


def test_fit_starts_again():
    refitted = learner().fit(TEXTS[:20], LABELS[:20])
    assert refitted.labelled == 20
    with pytest.raises(LabelError):
        refitted.fit(TEXTS[:2], [["sport"], ["no such"]])
    assert refitted.labelled == 20  # a mistake forgets nothing


def test_known_and_new_texts_get_the_same_prediction_and_teach_no_words(trained):
    known = trained.predict_proba(TEXTS[:3])
    before = trained.fingerprint()
    mixed = trained.predict_proba([*TEXTS[:3], "words never seen", ""])
    np.testing.assert_allclose(mixed[:3], known, atol=1e-6)
    assert np.isfinite(mixed).all()
    assert trained.fingerprint() == before
    assert trained.predict_proba([]).shape == (0, 3)


def test_a_label_never_seen_is_held_improbable():
    never = LABELS[:50].copy()
    never[:, 2] = False
    one = Learner(TINY, NAMES).tell(TEXTS, [None] * 120).tell(TEXTS[:50], never)
    assert one.predict_proba(TEXTS[50:])[:, 2].max() < 0.5
    assert len(one.ask(TEXTS, 5).indices) == 5


def test_skipped_and_answered_documents_are_not_asked_again():
    asked = learner().tell(TEXTS[50:115], ["skipped"] * 65)
    suggestion = asked.ask(TEXTS, 50)
    assert sorted(suggestion.indices.tolist()) == [115, 116, 117, 118, 119]
    asked.tell(TEXTS[115:], ["skipped"] * 5)
    with pytest.raises(EmptyPoolError, match="all 120 documents"):
        asked.ask(TEXTS, 1)


def test_equal_texts_are_asked_once():
    pool = ["same words"] * 5 + ["other words", ""]
    suggestion = Learner(TINY, NAMES).ask(pool, 10)
    assert sorted(suggestion.indices.tolist()) == [0, 5, 6]


@pytest.mark.parametrize("strategy", ["random", "coreset", "entropy"])
def test_other_strategies_name_themselves(strategy):
    config = dataclasses.replace(TINY, strategy=dataclasses.replace(TINY.strategy, name=strategy))
    suggestion = learner(config=config).ask(TEXTS, 4)
    assert suggestion.sources == [strategy] * 4
    assert np.isnan(suggestion.scores).all() == (strategy != "entropy")


def test_a_learning_curve(trained):
    curve = trained.learning_curve()
    assert curve.labelled == [25, 50]
    assert curve.micro_f1[0] <= curve.micro_f1[1]
    assert curve.micro_f1[1] > 0.6
    with pytest.raises(NotFittedError, match="at least 10"):
        learner(labelled=9).learning_curve()


def test_a_saved_learner_goes_on_the_same(trained, tmp_path):
    trained.save(tmp_path / "kept")
    loaded = Learner.load(tmp_path / "kept")
    assert loaded.fingerprint() == trained.fingerprint()
    assert loaded.config == TINY
    np.testing.assert_array_equal(loaded.predict_proba(TEXTS), trained.predict_proba(TEXTS))
    suggestion, expected = loaded.ask(TEXTS, 10), trained.ask(TEXTS, 10)
    np.testing.assert_array_equal(suggestion.indices, expected.indices)
    assert not list(tmp_path.rglob("*.pkl"))


def test_a_learner_is_saved_before_it_is_trained(tmp_path):
    learner(labelled=3).tell(TEXTS[5:6], ["skipped"]).save(tmp_path)
    loaded = Learner.load(tmp_path)
    assert loaded.labelled == 3
    assert 5 not in loaded.ask(TEXTS, 120).indices


def test_damaged_saves_are_noticed(trained, tmp_path):
    with pytest.raises(SavedLearnerError, match="no saved learner here"):
        Learner.load(tmp_path)
    trained.save(tmp_path)
    (params,) = tmp_path.glob("*.safetensors")
    params.write_bytes(b"other")
    with pytest.raises(SavedLearnerError, match="not the parameters saved with"):
        Learner.load(tmp_path)


def test_another_version_has_another_fingerprint_and_is_not_restored(
    trained, tmp_path, monkeypatch
):
    trained.save(tmp_path)
    again, before = learner(), trained.fingerprint()
    assert again.restore(tmp_path)
    assert not learner(labelled=49).restore(tmp_path)
    for place in ("learner", "trained"):
        monkeypatch.setattr(f"crabjax.labelling.{place}.VERSION", "99.0")
    assert trained.fingerprint() != before
    with pytest.raises(SavedLearnerError, match=r"this is 99\.0"):
        again.restore(tmp_path)
    assert Learner.load(tmp_path).labelled == 50  # whoever loads it wants these parameters


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda one: one.ask(TEXTS, 0), ValueError, "n: expected at least 1"),
        (lambda one: one.ask([], 3), EmptyPoolError, "all 0 documents"),
        (lambda one: one.ask("text", 3), TypeError, "expected a list of strings"),
        (lambda one: one.tell([1], [[]]), TypeError, r"texts\[0\]: expected a string, found int"),
        (lambda one: one.tell(["\ud800"], [[]]), ValueError, r"texts\[0\]: half of a surr"),
        (lambda one: one.evaluate(TEXTS[:1], [None]), LabelError, "at least one document"),
        (lambda one: one.predict_proba(["x"]), NotFittedError, "found none"),
        (lambda one: one.threshold(), NotFittedError, "found none"),
    ],
)
def test_misuse_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call(Learner(TINY, NAMES))


def test_unknown_strategies_are_refused_at_once():
    config = dataclasses.replace(TINY, strategy=dataclasses.replace(TINY.strategy, name="krab"))
    with pytest.raises(ValueError, match="did you mean crab"):
        Learner(config, NAMES)
