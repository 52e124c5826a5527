"""The notebooks run from top to bottom, and their cells print what is committed."""

import copy

import pytest

pytest.importorskip("nbclient")

import nbformat
from notebook_outputs import NOTEBOOKS, differences, executed, normalised


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_print_what_is_committed(path):
    committed = nbformat.read(path, as_version=4)
    found = differences(committed, executed(path))
    assert not found, f"{path.name}:\n" + "\n".join(map(str, found))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_notebooks_hold_outputs_and_nothing_of_the_run(path):
    notebook = nbformat.read(path, as_version=4)
    assert normalised(copy.deepcopy(notebook)) == notebook
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    assert not any(
        o.get("name") == "stderr" or o.output_type == "error" for c in notebook.cells for o in c.get("outputs", ())
    )


def printing(text, *tags):
    """Return a notebook whose one cell, with these tags, printed a text."""
    outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)]
    return nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("run()", id="only", outputs=outputs, metadata={"tags": list(tags)})]
    )


SAME = {
    "a unit of the last digit": ("loss 0.92", "loss 0.93", ()),
    "the tolerance": ("loss 1.23456e-05", "loss 1.23556e-05", ()),
    "times": ("10 steps in 3.2 s", "10 steps in 41 ms", ()),
    "spaces": ("[ 1.  2.5]", "[1.  2.5]", ()),
    "versions": ("what jaxish 0.10.2.1 lacks", "what jaxish 0.11.0.12 lacks", ()),
    "a tenth": ("accuracy 0.91, 360 images", "accuracy 0.95, 350 images", ("about",)),
    "what varies": ("a 1", "b", ("varies",)),
}


@pytest.mark.parametrize("name", SAME)
def test_outputs_that_count_as_the_same(name):
    before, after, tags = SAME[name]
    assert not differences(printing(before, *tags), printing(after, *tags))


DIFFERENT = {
    "a number": ("loss 0.92", "loss 0.95", "0.95"),
    "a count": ("360 images", "361 images", "361"),
    "a sign": ("x 0.5", "x -0.5", "-0.5"),
    "a word": ("3 missing", "3 found", "3 found"),
    "one more number": ("[1 2]", "[1 2 3]", "[1 2 3]"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_outputs_that_differ_are_told_with_their_cell(name):
    before, after, told = DIFFERENT[name]
    (found,) = differences(printing(before), printing(after))
    assert str(found).startswith("cell only printed ") and repr(told) in str(found)


def test_a_cell_that_prints_nothing_more_differs():
    silent = printing("")
    silent.cells[0].outputs = []
    assert len(differences(printing("1"), silent)) == 1
