"""jax.profiler: profiles that JAX's own reader reads, and JAX's profiles read here."""

import functools
import gzip
import json
import threading

import jax
import numpy as np
import pytest

import jaxish

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's profiler warns of itself


def program(lib):
    with (
        lib.profiler.StepTraceAnnotation("train", step_num=3),
        lib.profiler.TraceAnnotation("inner", text="v", number=2),
    ):
        return lib.numpy.ones(10).sum().block_until_ready()


def taken(lib, folder, run=program, **options):
    with lib.profiler.trace(folder, **options):
        run(lib)
    (path,) = folder.glob("plugins/profile/*/*.xplane.pb")
    return path


def content(profile):
    return [
        (plane.name, sorted(map(str, plane.stats)),
         [(line.name, [(e.name, e.start_ns, e.duration_ns, e.end_ns, sorted(map(str, e.stats))) for e in line.events])
          for line in plane.lines])
        for plane in profile.planes
    ]  # fmt: skip


def events(profile):
    host = profile.find_plane_with_name("/host:CPU")
    return {e.name: e for line in host.lines for e in line.events}


@pytest.mark.parametrize("writer", [jax, jaxish])
def test_a_profile_is_read_alike_by_jax_and_here(writer, tmp_path):
    path = str(taken(writer, tmp_path))
    wanted = content(jax.profiler.ProfileData.from_file(path))
    assert wanted == content(jaxish.profiler.ProfileData.from_file(path))
    assert any(lines for _, _, lines in wanted)


def test_annotations_have_the_metadata_that_jax_gives_them(tmp_path):
    read = jax.profiler.ProfileData.from_file
    found, wanted = (events(read(str(taken(lib, tmp_path / lib.__name__)))) for lib in (jaxish, jax))
    for name in ("train", "inner"):
        assert sorted(found[name].stats) == sorted(wanted[name].stats)
    assert found["train"].start_ns <= found["inner"].start_ns <= found["inner"].end_ns <= found["train"].end_ns
    assert "aten::sum" in found


def test_functions_and_late_metadata(tmp_path):
    def run(lib):
        @lib.profiler.annotate_function
        def plain(x):
            return x + 1

        @functools.partial(lib.profiler.annotate_function, name="given", size=4)
        def named(x):
            return x + 1

        assert lib.profiler.TraceAnnotation.is_enabled()
        with lib.profiler.TraceAnnotation("late") as annotation:
            annotation.set_metadata(result=5)
        return named(plain(1)), lib.jit(plain)(lib.numpy.ones(2))

    read = jax.profiler.ProfileData.from_file
    found, wanted = (events(read(str(taken(lib, tmp_path / lib.__name__, run)))) for lib in (jaxish, jax))
    plain = next(name for name in wanted if name.endswith("plain") and "<locals>" in name)
    for name in (plain, "given", "late"):
        assert sorted(found[name].stats) == sorted(wanted[name].stats)
    assert not jaxish.profiler.TraceAnnotation.is_enabled()


def test_other_threads_are_seen(tmp_path):
    def run(lib):
        def work():
            with lib.profiler.TraceAnnotation("elsewhere"):
                lib.numpy.ones(3).sum().block_until_ready()

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    assert "elsewhere" in events(jaxish.profiler.ProfileData.from_file(taken(jaxish, tmp_path, run)))


def test_files_for_chrome_and_perfetto(tmp_path):
    path = taken(jaxish, tmp_path, create_perfetto_trace=True)
    for file in (path.parent / "perfetto_trace.json.gz", *path.parent.glob("*.trace.json.gz")):
        shown = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
        assert [e["args"] for e in shown if e["name"] == "train"] == [{"_r": 1, "step_num": 3}]


def test_options(tmp_path):
    names = {}
    for level in (0, 1):
        options = jaxish.profiler.ProfileOptions()
        options.python_tracer_level, options.session_id = level, f"run{level}"
        path = taken(jaxish, tmp_path / str(level), profiler_options=options)
        assert path.parent.name == f"run{level}"
        names[level] = set(events(jaxish.profiler.ProfileData.from_file(path)))
    assert any(name.endswith(": program") for name in names[1] - names[0])
    refused = jaxish.profiler.ProfileOptions(duration_ms=5)
    with pytest.raises(NotImplementedError, match="duration_ms"):
        jaxish.profiler.start_trace(tmp_path, profiler_options=refused)


def test_one_profile_at_a_time(tmp_path):
    for lib in (jax, jaxish):
        with pytest.raises(RuntimeError, match="No profile started"):
            lib.profiler.stop_trace()
        lib.profiler.start_trace(tmp_path / lib.__name__)
        with pytest.raises(RuntimeError, match="Profile has already been started"):
            lib.profiler.start_trace(tmp_path / lib.__name__)
        lib.profiler.stop_trace()


def test_what_is_no_profile():
    for lib in (jax, jaxish):
        with pytest.raises(RuntimeError, match="Failed to parse XSpace"):
            lib.profiler.ProfileData.from_serialized_xspace(b"\xff\xff garbage")
        with pytest.raises(ValueError, match="No active profiler server"):
            lib.profiler.stop_server()


def test_the_memory_profile_counts_live_arrays(tmp_path):
    from jaxish._profiler import protobuf

    def bytes_held(filename):
        fields = list(protobuf.fields(gzip.decompress(filename.read_bytes())))
        texts = [value.decode() for number, value in fields if number == 6]
        names = {dict(protobuf.fields(f))[1]: texts[dict(protobuf.fields(f))[2]] for n, f in fields if n == 5}
        held = {}
        for sample in (list(protobuf.fields(value)) for number, value in fields if number == 2):
            values = [v for n, v in sample if n == 2]
            held[names[next(v for n, v in sample if n == 1)]] = values
        return held

    kept = [jaxish.numpy.asarray(np.full((17, 31), i, np.float32)) for i in range(3)]
    jaxish.profiler.save_device_memory_profile(tmp_path / "with.prof")
    assert bytes_held(tmp_path / "with.prof")["float32[17,31]"] == [3, sum(x.nbytes for x in kept)]
    del kept
    jaxish.profiler.save_device_memory_profile(tmp_path / "without.prof")
    assert "float32[17,31]" not in bytes_held(tmp_path / "without.prof")
