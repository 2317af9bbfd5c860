"""What tests of data sources share."""

import pytest

from crabjax.data.corpus import read_corpus
from crabjax.data.sources.common import Asked


@pytest.fixture
def run():
    """Asks a source for splits; what it says, and the files it wrote as corpora by name."""

    def run(source, raw, output, train, test, seed=0):
        asked = Asked(raw, output, {"train": train, "test": test}, seed)
        prepared = source.prepare(asked)
        corpora = {name: read_corpus(output / f"{name}.jsonl") for name in prepared.written}
        assert {name: len(corpus) for name, corpus in corpora.items()} == prepared.written
        return prepared, corpora

    return run


@pytest.fixture
def by_id():
    """Texts and labels of some corpora, by id."""

    def by_id(corpora):
        return {
            identity: (text, labels)
            for corpus in corpora.values()
            for identity, text, labels in zip(corpus.ids, corpus.texts(), corpus.label_sets)
        }

    return by_id
