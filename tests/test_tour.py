"""The notebook runs from top to bottom, and what it prints is what it says."""

import os
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parent.parent / "docs" / "tour.ipynb"


@pytest.mark.slow
# Of Jupyter's own packages, not of ours.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_the_tour_runs(tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("CRABJAX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(NOTEBOOK.parents[1])]))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=900, resources=resources).execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    text = "".join(out.get("text", "") for out in outputs)
    assert "documents to label next" in text
    assert "share of the score" in text
    assert any("image/png" in out.get("data", {}) for out in outputs)
