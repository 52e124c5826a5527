"""`python -m jaxish check`: the names that a code base uses, by what Python does with it, and which of them jaxish has."""

import codecs
import importlib
import json
import os
import subprocess
import sys
import textwrap
from collections import defaultdict

import jax
import jax_names
import pytest

import jaxish
from jaxish import __main__ as command
from jaxish._porting import differences, page, report, served, sources, verdict

# Each line tells behind `#:` what it uses of JAX.
PROGRAMS = {
    "imports": """
        import jax  #: jax
        import jax.numpy as jnp, numpy as np  #: jax.numpy
        import jax.scipy.stats  #: jax.scipy.stats
        from jax import lax as L, vmap  #: jax.lax jax.vmap
        from jax.numpy import *  #: jax.numpy.*
        from jax._src import core  #: jax._src.core
        from jax._src.util import safe_map as smap  #: jax._src.util.safe_map
        jnp.linalg.norm(np.ones(3))  #: jax.numpy.linalg.norm
        jax.scipy.stats.norm.logpdf(0.0)  #: jax.scipy.stats.norm.logpdf
        L.fori_loop(0, 1, vmap, None)  #: jax.lax.fori_loop jax.vmap
        core.ShapedArray, smap  #: jax._src.core.ShapedArray jax._src.util.safe_map
    """,
    "aliases": """
        import jax  #: jax
        jnp = jax.numpy  #: jax.numpy
        (scan, cond), n = (jax.lax.scan, jax.lax.cond), 3  #: jax.lax.scan jax.lax.cond
        xp = jnp if n else list  #: jax.numpy
        jnp.sum(xp.ones(3))  #: jax.numpy.sum jax.numpy.ones
        scan(cond, 0, None)  #: jax.lax.scan jax.lax.cond
        if (relu := jax.nn.relu) is not None:  #: jax.nn.relu
            relu(1.0)  #: jax.nn.relu
    """,
    "shadowed": """
        from jax import lax, numpy as jnp, random  #: jax.lax jax.numpy jax.random
        from . import jax
        from .compat import vmap
        jax.grad, vmap.x
        def f(lax, *random, **jnp):
            return lax.scan, random.normal, jnp.ones, jax.jit
        def g():
            lax = object()
            for random in range(3):
                random.real
            return lax.map
        def h():
            return lax.map  #: jax.lax.map
        class A:
            lax = 3
            def f(self):
                return lax.cond  #: jax.lax.cond
            lax.real
        [lax.a for lax in range(3)]
        lax.erf, (lambda lax: lax.b)  #: jax.lax.erf
        with open("x") as jnp:
            jnp.read()
        try:
            pass
        except ValueError as random:
            random.args
        random = 3
        random.bits
    """,
    "functions see what a module ends with": """
        import numpy as np
        def f():
            return np.ones(3)  #: jax.numpy.ones
        import jax.numpy as np  #: jax.numpy
        @np.vectorize  #: jax.numpy.vectorize
        def g(x: np.ndarray = np.pi) -> np.ndarray:  #: jax.numpy.ndarray jax.numpy.pi
            global late
            import jax.nn as late  #: jax.nn
        def h():
            def inner():
                nonlocal there
                there = np.abs  #: jax.numpy.abs
            def outer():
                return there  #: jax.numpy.abs
            there = None
            return late.relu  #: jax.nn.relu
    """,
    "branches": """
        try:
            import jax  #: jax
        except ImportError:
            jax = None
        try:
            from jax.extend import linear_util as lu  #: jax.extend.linear_util
        except ImportError:
            from jax import linear_util as lu  #: jax.linear_util
        lu.wrap_init  #: jax.extend.linear_util.wrap_init jax.linear_util.wrap_init
        if jax.__version_info__ >= (0, 4, 30):  #: jax.__version_info__
            tree = jax.tree  #: jax.tree
        else:
            tree = jax.tree_util  #: jax.tree_util
        tree.leaves  #: jax.tree.leaves
        match 3:
            case int(lax):
                lax.real
    """,
    "other ways in": """
        import importlib
        from functools import partial
        import pytest
        jax = pytest.importorskip("jax")  #: jax
        sparse = importlib.import_module("jax.experimental.sparse")  #: jax.experimental.sparse
        sparse.BCOO  #: jax.experimental.sparse.BCOO
        getattr(jax, "grad")  #: jax
        jax.jit(lambda x: x).lower(3).compile()  #: jax.jit
        jax.config.jax_enable_x64 = True  #: jax.config
        jax.Array.at, jax.numpy.add.reduce  #: jax.Array.at jax.numpy.add.reduce
        (jax.nn if True else None).relu.__doc__  #: jax.nn jax.nn.relu.__doc__
        @partial(jax.jit, static_argnums=0)  #: jax.jit
        def f(x): ...
    """,
}


def checked(folder, program, name="program.py"):
    (folder / name).write_text(textwrap.dedent(program))
    return verdict.check([str(folder)])


def status(found):
    return {(name.name, name.status) for name in found.names}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_the_names_that_a_program_uses_are_found_at_their_lines(tmp_path, program):
    wanted = defaultdict(set)
    for number, line in enumerate(textwrap.dedent(program).splitlines(), 1):
        wanted[number] |= set(line.partition("#:")[2].split())
    found = defaultdict(set)
    for name in checked(tmp_path, program).names:
        for use in name.uses:
            found[use.place.line].add(name.name)
    assert {line: names for line, names in found.items() if names} == {n: w for n, w in wanted.items() if w}


def test_what_check_has_is_what_run_serves(tmp_path):
    names = [f"{module}.{name}" for module, below in served._names_of_jax().items() for name in below]
    names += [
        "jax._src.core.Primitive",
        "jax._src.core.nothing",
        "jax._src.nothing",
        "jaxlib.version",
        "jaxlib._jax",
        "jaxlib.xla_client",
    ]
    program = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
def there(name):
    module, _, last = name.rpartition(".")
    try:
        if hasattr(importlib.import_module(module), last):
            return True
        importlib.import_module(name)
        return True
    except ImportError:
        return False
print(json.dumps([there(name) for name in json.loads(open("names.json").read())]))
"""
    (tmp_path / "names.json").write_text(json.dumps(names))
    (tmp_path / "program.py").write_text(program)
    run = subprocess.run(
        [sys.executable, "-m", "jaxish", "run", "program.py"], cwd=tmp_path, capture_output=True, text=True
    )
    there = dict(zip(names, json.loads(run.stdout), strict=True))
    assert sum(there.values()) > 2000 and not all(there.values())
    assert {name: served.served(name).there for name in names} == there


MISSING = [
    ("import jax\njax.no_such_name", "jax.no_such_name"),
    ("from jax import no_such_name", "jax.no_such_name"),
    ("import jax.no.such.name", "jax.no.such.name"),
    ("from jax._src.lib import pytree", "jax._src.lib.pytree"),
    ("import jaxlib.mlir", "jaxlib.mlir"),
    ("import jax\njax.tree_map(f, x)", "jax.tree_map"),
    ("import jax\njax.Array.no_such_method", "jax.Array.no_such_method"),
    ("import jax\njax.lax.precv(1)", "jax.lax.precv"),
    ("import jax\njax.jit(f, no_such_argument=3)", "jax.jit(no_such_argument=)"),
    ("import jax\njax.vmap(f, sum_match=True)", "jax.vmap(sum_match=)"),
    ("import jax\njax.jit(f).trace(x).lower(lowering_platforms=('tpu',))", ".lower(lowering_platforms=)"),
    ("from functools import partial\nimport jax\npartial(jax.grad, reduce_axes=('i',))", "jax.grad(reduce_axes=)"),
    ("import jax.lax as l\nl.reduce(x, 0, f, (0,), out_sharding=s)", "jax.lax.reduce(out_sharding=)"),
    ("import jax\njax.config.update('jax_check_static_indices', True)", "jax.config.update(jax_check_static_indices=)"),
    ("import jax\njax.config.update('jax_no_such_option', 3)", "jax.config.update(jax_no_such_option=)"),
    ("import jax\njax.nn.dot_product_attention(q, k, v, implementation='cudnn')", "jax.nn.dot_product_attention(implementation=)"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "name"), MISSING)
def test_what_is_missing_makes_the_check_fail(tmp_path, program, name):
    found = checked(tmp_path, program)
    assert (name, "missing") in status(found)
    assert [n.name for n in found.names if n.status == "missing"] == [name]
    assert found.exit_code == 1
    lacking = report.sentence(found).partition("lacks: ")[2].removesuffix(".")
    assert lacking and name.startswith(lacking)


THERE = [
    "import jax\njax.vmap(f, sum_match=False)",
    "import jax\njax.jit(f, static_argnums=0, donate_argnums=())",
    "import jax\njax.config.update('jax_enable_x64', True)\njax.config.update('jax_check_static_indices', False)",
    "import jax\ndef g(f, reduce_axes=()): return jax.grad(f, reduce_axes=reduce_axes)",
    "import jax\nfrom jax._src.core import Primitive\nimport jaxlib\njaxlib.__version__",
]


@pytest.mark.parametrize("program", THERE)
def test_arguments_that_are_refused_may_have_their_default(tmp_path, program):
    assert checked(tmp_path, program).exit_code == 0


DIFFERENT = [
    ("import jax\njax.random.gamma(key, 1.0)", "jax.random.gamma"),
    ("import jax\njax.remat(f, prevent_cse=False)", "jax.remat(prevent_cse=)"),
    ("import jax.lax\njax.lax.dot(x, y, precision='highest')", "jax.lax.dot(precision=)"),
    ("import jax\njax.config.update('jax_dump_ir_to', 'x')", "jax.config.update(jax_dump_ir_to=)"),
    ("import jax\nf.defvjp(g, h, optimize_remat=True)", ".defvjp(optimize_remat=)"),
]


@pytest.mark.parametrize(("program", "name"), DIFFERENT)
def test_what_differs_is_told_and_is_no_failure(tmp_path, program, name):
    found = checked(tmp_path, program)
    (different,) = [n for n in found.names if n.name == name]
    assert different.status == "differs" and different.differences
    assert found.exit_code == 0
    assert name in report.as_text(found)


GUARDED = {
    "ImportError": "try:\n    from jax import nothing\nexcept (KeyError, ImportError):\n    nothing = None\nnothing.x",
    "AttributeError": "import jax\ntry:\n    x = jax.nothing\nexcept AttributeError:\n    x = 3\nx.y",
    "suppress": "import contextlib\nwith contextlib.suppress(ImportError):\n    import jax.nothing",
    "bare": "import jax\ntry:\n    jax.nothing\nexcept:\n    pass",
    "typing": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from jax import nothing",
    "annotations": "from __future__ import annotations\nimport jax\ndef f(x: jax.nothing): ...",
    "local annotation": "import jax\ndef f():\n    x: jax.nothing = 3",
    "version": "import jax\nif jax.__version_info__ < (0, 5):\n    jax.nothing\nelse:\n    jax.jit",
    "version text": "import jax\nfrom packaging.version import Version\nif Version(jax.__version__) < Version('0.4.31'): jax.nothing",
    "hasattr": "import jax\nif hasattr(jax, 'nothing'):\n    jax.nothing",
    "no hasattr": "import jax\nf = jax.tree.map if hasattr(jax, 'tree') else jax.nothing",
    "importorskip": "import pytest\nx = pytest.importorskip('jax.nothing')\nx.y",
}


@pytest.mark.parametrize("program", GUARDED.values(), ids=GUARDED)
def test_what_a_program_does_without_is_no_failure(tmp_path, program):
    found = checked(tmp_path, program)
    missing = [name for name in found.names if name.status == "missing"]
    assert missing and all("jax.nothing" in name.name and name.is_guarded for name in missing)
    assert found.exit_code == 0


UNGUARDED = [
    "try:\n    import jax\nexcept ImportError:\n    jax = None\njax.nothing",  # jax is there, nothing is not
    "try:\n    from jax import nothing\nexcept AttributeError:\n    pass",
    "import jax\ntry:\n    def f(): return jax.nothing\nexcept AttributeError:\n    pass",
    "import jax\nif hasattr(jax, 'nothing'): pass\nelse: jax.nothing",
    "import jax\nif jax.__version_info__ > (0, 5): jax.nothing",
    "from typing import TYPE_CHECKING\nif not TYPE_CHECKING:\n    from jax import nothing",
]


@pytest.mark.parametrize("program", UNGUARDED)
def test_what_a_program_comes_to_is_a_failure(tmp_path, program):
    assert checked(tmp_path, program).exit_code == 1


def test_names_that_jax_lacks_too_are_told_apart(tmp_path):
    found = checked(tmp_path, "import jax\njax.no_such_name\njax.tree_map\njax.experimental.pallas.tpu_sc.load_gather")
    reasons = {name.name: name.reason for name in found.names}
    assert "nor has JAX" in reasons["jax.no_such_name"]
    assert reasons["jax.tree_map"].endswith("Instead: jax.tree.map")
    assert "nor has JAX" not in reasons["jax.experimental.pallas.tpu_sc.load_gather"]


# ---------------------------------------------------------------------------------------------------------------- files


def test_files_that_cannot_be_read_are_told_and_the_others_are_read(tmp_path):
    (tmp_path / "syntax.py").write_text("import jax\ndef (:\n")
    (tmp_path / "bytes.py").write_bytes(b"import jax\nx = '\xff'\n")
    (tmp_path / "null.py").write_bytes(b"import jax\0")
    (tmp_path / "deep.py").write_text("x = " + "(" * 5000 + ")" * 5000)
    found = checked(tmp_path, "import jax\njax.jit")
    assert sorted(os.path.basename(u.place.file) for u in found.unread) == [
        "bytes.py",
        "deep.py",
        "null.py",
        "syntax.py",
    ]
    assert ("jax.jit", "has") in status(found) and found.exit_code == 0
    assert "syntax.py:2: not Python" in report.as_text(found)


@pytest.mark.parametrize("written", [
    codecs.BOM_UTF8 + "import jax\njax.jit  # ä".encode(), "# coding: latin-1\nimport jax\njax.jit  # ä".encode("latin-1"),
    b"import jax\r\njax.jit\r\n",
])  # fmt: skip
def test_files_are_read_in_the_encoding_that_they_name(tmp_path, written):
    (tmp_path / "a.py").write_bytes(written)
    found = verdict.check([str(tmp_path)])
    assert status(found) == {("jax", "has"), ("jax.jit", "has")}


def test_circles_of_links_end_and_files_are_read_once(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "program.py").write_text("import jax")
    (tmp_path / "a" / "circle").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "b").symlink_to(tmp_path / "a", target_is_directory=True)
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    found = verdict.check([str(tmp_path), str(tmp_path / "a" / "program.py")])
    assert report.counts(found)["uses"] == 1
    assert [os.path.basename(unread.place.file) for unread in found.unread] == ["loop.py"]


def test_folders_without_code_of_the_project_are_left_out(tmp_path):
    for folder in (".hidden", "__pycache__", "environment", "package"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text("import jax")
    (tmp_path / "environment" / "pyvenv.cfg").write_text("")
    read = [found for found in sources.read([str(tmp_path)]) if isinstance(found, sources.Source)]
    assert [source.file for source in read] == [str(tmp_path / "package" / "a.py")]


def test_notebooks_are_read_by_cells(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["import jax.nothing"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "!pip install jax\n", "import jax"]},
        {"cell_type": "code", "source": "%%bash\nimport jax.nothing\n"},
        {"cell_type": "code", "source": ["%%time\n", "for i in range(3):\n", "    %timeit jax.nothing\n", "    jax.jit?\n", "    jax.jit"]},
    ]  # fmt: skip
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}))
    (tmp_path / "b.ipynb").write_text("{}")
    found = verdict.check([str(tmp_path)])
    (use,) = next(name.uses for name in found.names if name.name == "jax.jit")
    assert use.place == sources.Place(str(tmp_path / "a.ipynb"), 5, 4)
    assert status(found) == {("jax", "has"), ("jax.jit", "has")}
    assert [os.path.basename(unread.place.file) for unread in found.unread] == ["b.ipynb"]


# -------------------------------------------------------------------------------------------------------- command line


def test_nothing_of_the_code_is_run(tmp_path):
    (tmp_path / "program.py").write_text(f"import jax\nopen({str(tmp_path / 'ran')!r}, 'w')\n")
    assert command.main(["check", str(tmp_path)]) == 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("what", ["no path", "no files", "nothing readable"])
def test_the_exit_code_is_2_where_nothing_can_be_said(tmp_path, capsys, what):
    if what == "nothing readable":
        (tmp_path / "a.py").write_text("def (")
    assert command.main(["check", str(tmp_path / "nowhere" if what == "no path" else tmp_path)]) == 2


def test_the_json_says_what_docs_say(tmp_path, capsys):
    (tmp_path / "a.py").write_text(
        "import jax\njax.nothing\njax.random.gamma\ntry: import jax.none\nexcept ImportError: pass\n"
    )
    (tmp_path / "b.py").write_text("def (")
    assert command.main(["check", "--json", str(tmp_path)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["schema", "jaxish", "jax", "exit_code", "verdict", "counts", "names", "unread"]
    assert (found["schema"], found["jaxish"], found["exit_code"]) == (1, jaxish.__version__, 1)
    assert found["counts"] == {
        "files": 2, "unread": 1, "names": 4, "uses": 4, "has": 1, "differs": 1, "missing": 2, "guarded": 1,
    }  # fmt: skip
    names = {name["name"]: name for name in found["names"]}
    assert {name: (n["status"], n["guarded"]) for name, n in names.items()} == {
        "jax": ("has", False), "jax.nothing": ("missing", False), "jax.none": ("missing", True),
        "jax.random.gamma": ("differs", False),
    }  # fmt: skip
    assert {name: n["in_jax"] for name, n in names.items()} == {
        "jax": True, "jax.nothing": False, "jax.none": False, "jax.random.gamma": True,
    }  # fmt: skip
    assert names["jax.none"]["uses"] == [
        {"file": str(tmp_path / "a.py"), "line": 4, "cell": None, "column": 13, "guard": "ImportError"}
    ]
    assert [set(d) for d in names["jax.random.gamma"]["differences"]] == [{"section", "text", "instead"}]
    assert found["unread"][0]["line"] == 1


def test_importing_jaxish_does_not_load_it(tmp_path):
    code = "import sys, jaxish, jaxish.__main__; print([m for m in sys.modules if '_porting' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


# ------------------------------------------------------------------------------------------------------------- tables


def test_the_page_is_made_of_the_table():
    assert page.PAGE.read_text() == page.text(), "run: python -m jaxish._porting.page"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_names_of_jax_are_those_of_the_jax_that_is_followed():
    found = served._names_of_jax()
    for module, names in found.items():
        assert set(jax_names.public(importlib.import_module(module))) == names, "run: python tests/jax_names.py"
    assert len(found) > 100


ENTRIES = [entry for section in differences.SECTIONS for entry in differences.table()[section]]
TOLD = sorted({name for entry in ENTRIES for name in (*entry.get("names", ()), *entry.get("refused", ()))})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", TOLD)
def test_the_table_names_what_jax_has(name):
    path, keyword, _ = differences.pattern(name)
    if path == "jax.config.update":
        assert keyword in jax.config.values
    elif not path.startswith("."):
        found = importlib.import_module("jax")
        parts = path.removesuffix(".*").split(".")[1:]
        for number, part in enumerate(parts, 1):
            if not hasattr(found, part):
                importlib.import_module("jax." + ".".join(parts[:number]))
            found = getattr(found, part)


def test_what_jax_has_removed_it_has_no_more():
    for path, instead in differences.table()["removed"].items():
        assert served.is_of_jax(path) is False
        if instead.startswith("jax.") and " " not in instead and "(" not in instead:
            assert all(served.served(name).there for name in instead.split(", "))
