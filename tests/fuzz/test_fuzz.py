"""Files of the corpus are read, and mutations of them are read or refused by a sentence."""

import pytest

from tests.fuzz.mutated import CORPUS, READERS, fault_of, faults


@pytest.mark.parametrize("path", sorted(CORPUS.rglob("*.*")), ids=lambda path: path.name)
def test_the_corpus_is_read(path):
    READERS[path.parent.name][0](path)


@pytest.mark.parametrize("kind", READERS)
def test_mutations_are_read_or_refused(kind):
    assert not list(faults(kind, 40, seed=1))


@pytest.mark.long
@pytest.mark.parametrize("kind", READERS)
def test_many_mutations_are_read_or_refused(kind):
    assert not list(faults(kind, 1000, seed=2))


def test_a_reader_that_lets_an_error_through_is_found(monkeypatch):
    monkeypatch.setitem(READERS, "pipelines", (lambda path: path.read_text().index("transforms"), ()))
    assert any("ValueError" in found for found in faults("pipelines", 60, seed=0))
    assert fault_of("pipelines", CORPUS / "missing.toml")
