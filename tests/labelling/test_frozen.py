"""A learner with the vectors of a frozen encoder."""

import shutil
from pathlib import Path

import pytest

from crabjax.config import from_dict
from crabjax.labelling.learner import Learner

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"


@pytest.fixture
def encoder(tmp_path):
    """A tiny BERT that knows a few words."""
    folder = shutil.copytree(FIXTURES / "tiny_bert", tmp_path / "encoder")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*special, *(f"word{number}" for number in range(95))]
    (folder / "vocab.txt").write_text("\n".join(words))
    return str(folder)


def test_one_label_few_documents_and_a_frozen_encoder(encoder):
    settings = {
        "data": {"max_tokens": 16},
        "devices": {"cache": False},
        "model": {"name": "frozen", "pretrained": encoder, "dropout": 0.1},
        "ensemble": {"members": 5, "epochs": 30, "patience": 15, "batch_size": 10},
    }
    single = Learner(from_dict(settings), ["only"])
    texts = [f"word{number % 2} word{number}" for number in range(14)]
    assert single.ask(texts, 3).sources == ["diverse"] * 2 + ["random"]
    single.tell(texts[:12], [["only"], []] * 6)
    assert sorted(single.ask(texts, 5).indices) == [12, 13]
    assert single.predict_proba([*texts, "word3 word5"]).shape == (15, 1)
    assert single.labelled == 12
