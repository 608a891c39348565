"""The example notebook runs, and its kept outputs are complete."""

import pathlib

import nbclient
import nbformat

NOTEBOOK = pathlib.Path(__file__).resolve().parents[1] / "examples" / "csv_to_figure.ipynb"


def shape(notebook):
    return [[sorted(output.get("data", {"text": 0})) for output in cell.get("outputs", [])] for cell in notebook.cells]


def test_the_notebook_gives_outputs_of_the_kept_kinds():
    kept = nbformat.read(NOTEBOOK, as_version=4)
    run = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(run, timeout=300, resources={"metadata": {"path": str(NOTEBOOK.parent)}}).execute()
    assert shape(run) == shape(kept)
    assert any("image/png" in kinds for outputs in shape(kept) for kinds in outputs)
    assert any("text/html" in kinds for outputs in shape(kept) for kinds in outputs)
