"""Writes csv_to_figure.ipynb anew and executes it: python examples/make_notebook.py (needs nbclient, ipykernel, pandas, pyarrow, matplotlib)."""

import pathlib

import nbclient
import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

HERE = pathlib.Path(__file__).resolve().parent

CELLS = [
    new_markdown_cell(
        "# From a CSV file to a figure\n\n"
        "`io.csv` has a row for each request: start and end in seconds, R or W, first sector, sectors, process. It is the beginning of a"
        " recording of two `grep` and a `cp`. Your file may have other columns; the next cells name them."
    ),
    new_code_cell("import pandas\n\nframe = pandas.read_csv('io.csv')\nframe.head(3)"),
    new_markdown_cell("A trace needs bytes, ascending times, and (for closed loops) the times of completions."),
    new_code_cell(
        "import dwell\n\n"
        "frame['offset'], frame['bytes'] = frame['lba'] * 512, frame['sectors'] * 512\n"
        "trace = dwell.Trace.from_table(\n"
        "    frame.sort_values('started_s'),\n"
        "    {'time': 'started_s', 'completed': 'finished_s', 'op': 'rw', 'process': 'pid'},\n"
        "    time_unit='s',\n"
        "    name='io.csv',\n"
        ")\n"
        "print(trace.describe())"
    ),
    new_markdown_cell("Compare schedulers on a modelled disk. The result shows itself as a table with charts."),
    new_code_cell("result = dwell.compare(trace, ['noop', 'mq-deadline', 'bfq', 'stream(deadline)'], drive='wd5000aaks')\nresult"),
    new_markdown_cell("Results are also tables of pyarrow, pandas and polars. A figure of your own:"),
    new_code_cell(
        "import matplotlib.pyplot as plt\n\n"
        "shares = result.to_pandas('distribution').query(\"direction == 'read'\")\n"
        "figure, axes = plt.subplots(figsize=(7, 3.5))\n"
        "for scheduler, rows in shares.groupby('scheduler', sort=False):\n"
        "    axes.plot(rows['latency_ns'] / 1e6, rows['share'] * 100, label=scheduler)\n"
        "axes.set(xscale='log', xlabel='latency of reads, ms', ylabel='requests done, %')\n"
        "axes.legend()\n"
        "plt.show()"
    ),
]

if __name__ == "__main__":
    notebook = new_notebook(cells=CELLS, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}})
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # Otherwise random.
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(HERE)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # Times of this run.
    nbformat.write(notebook, HERE / "csv_to_figure.ipynb")
