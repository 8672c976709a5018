"""How kernels are compiled: once, where Python enters, and found again by the next process."""

import errno
import importlib
import inspect
import io
import logging
import operator
import os
import re
import subprocess
import sys
import types
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from llvmlite import binding
from numba.core.dispatcher import Dispatcher

import pellucid
from pellucid.core import compilers
from pellucid.core.compilers import compiling, kept
from pellucid.kernels import jit, levels
from pellucid.kernels.threads import scratch

KERNEL = """
import numpy as np
from pellucid.kernels.jit import entry, fused

@fused.noinline
def inner(x, scale):
    for i in range(len(x)):
        x[i] = scale * x[i] + 1.0

@fused.noinline
def outer(x):
    inner(x, 2.0)
    inner(x, 3.0)

@entry
def run(x):
    outer(x)
"""


def test_only_what_python_calls_is_translated():
    kernel = types.ModuleType("kernel")
    exec(KERNEL.replace("@entry", "@numba.njit").replace("import numpy as np", "import numba"), kernel.__dict__)
    x = np.arange(5.0)
    kernel.run(x)
    assert np.array_equal(x, (2 * np.arange(5.0) + 1) * 3 + 1)
    libraries = {name: next(iter(getattr(kernel, name).overloads.values())).library for name in ("inner", "outer", "run")}
    assert {name for name, library in libraries.items() if isinstance(library, jit._Part)} == {"inner", "outer"}


def test_the_passes_left_out_change_no_machine_code():
    kernel, arguments = levels.to_colors, (np.zeros(9, np.uint8), np.zeros(9, np.float32), 0, 9)

    def instructions(pipeline):
        options = {key: kernel.targetoptions[key] for key in ("boundscheck", "error_model", "fastmath", "no_cfunc_wrapper")}
        made = jit.numba.njit(pipeline_class=pipeline, **options)(kernel.py_func)
        with compilers.quick_compiling() if pipeline is jit._EntryCompiler else nullcontext():
            made.compile(jit.numba.typeof(arguments).types)
        (code,) = made.inspect_asm().values()
        return re.findall(r"^\t([a-z]\w*)", code, re.MULTILINE)

    assert len(instructions(jit._EntryCompiler)) > 50
    assert instructions(jit._EntryCompiler) == instructions(jit._PlainCompiler)
    assert len(instructions(jit._PlainCompiler)) < len(instructions(jit.Compiler))  # which counts an array's references


def test_a_signature_is_searched_once(monkeypatch):
    functions, context = jit.numba.core.types.functions.BaseFunction, jit.numba.core.registry.cpu_target.typing_context
    search, searched, x = functions.get_call_type, [], jit.numba.float32

    def counted(self, context, args, kws):
        searched.append(args)
        return search(self, context, args, kws)

    monkeypatch.setattr(functions, "get_call_type", counted)
    monkeypatch.setattr(compiling, "_signatures", {})
    context.refresh()  # a process that has compiled nothing yet knows no operators
    plus = context.resolve_value_type(operator.add)
    with compilers.quick_compiling():
        with compilers.quick_compiling():
            first = plus.get_call_type(context, (x, x), {})
        assert plus.get_call_type(context, (x, x), {}) is first
        assert plus.get_call_type(context, (x, jit.numba.float64), {}).return_type == jit.numba.float64
    assert (len(searched), first.return_type) == (2, x)
    assert functions.get_call_type is counted


def broken(*_):
    raise AttributeError("no such internals")


@pytest.mark.parametrize("change", ["another base class", "another result"])
def test_a_numba_with_other_internals_compiles_all_the_same(change, monkeypatch):
    if change == "another base class":
        monkeypatch.setattr(jit._Part, "__init__", broken)
    else:
        monkeypatch.setattr(jit._PartCompiler, "__init__", lambda *arguments: jit.Compiler.__init__(*arguments))
        entered = lambda inner: lambda x: 41  # noqa: E731
        monkeypatch.setattr(
            jit.numba, "njit", lambda pipeline_class, **_: entered if pipeline_class is jit._EntryCompiler else lambda inner: inner
        )
    jit.parts_work.cache_clear()
    try:
        with pytest.warns(UserWarning, match="more slowly") as told:
            assert not jit.parts_work()
        assert len(told) == 1
        monkeypatch.undo()
        kernel = types.ModuleType("kernel")
        exec(KERNEL.replace("@entry", "@numba.njit").replace("import numpy as np", "import numba"), kernel.__dict__)
        x = np.arange(5.0)
        kernel.run(x)
        assert np.array_equal(x, (2 * np.arange(5.0) + 1) * 3 + 1)
        assert not any(isinstance(next(iter(f.overloads.values())).library, jit._Part) for f in (kernel.inner, kernel.outer))
    finally:
        jit.parts_work.cache_clear()
    assert jit.parts_work()


@pytest.mark.slow
def test_another_process_finds_the_translation(tmp_path):
    (tmp_path / "kernel.py").write_text(KERNEL)
    code = (
        "import numpy as np, kernel; x = np.arange(5.0); kernel.run(x); assert x[1] == 10.0;"
        "print(sum(kernel.run.stats.cache_hits.values()))"
    )
    root = str(Path(pellucid.__file__).resolve().parents[1])
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join((root, str(tmp_path))), "NUMBA_CACHE_DIR": str(tmp_path)}
    found = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
        found.append(int(done.stdout))
    assert found == [0, 1]


def test_two_processes_that_compile_at_once_keep_both_results(tmp_path):
    """Each has looked for what is there before the other has written."""
    (tmp_path / "kernel.py").write_text("from pellucid.core.compilers import translated\n\n\ndef twice(x):\n    return 2 * x\n")
    code = (
        "import os, sys, numpy as np, kernel; from pellucid.core.compilers import translated\n"
        "replace = os.replace\n"
        "def late(*paths): os.replace = replace; print('compiled', flush=True); input(); replace(*paths)\n"
        "kinds = [{'int': int, 'float': np.float32}[word] for word in sys.argv[1].split('+')]\n"
        "if len(kinds) == 1: os.replace = late\n"
        "run = translated(kernel.twice)\n"
        "print(*[run(kind(21)) for kind in kinds], sum(run.stats.cache_hits.values()))\n"
    )
    root = str(Path(pellucid.__file__).resolve().parents[1])
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join((root, str(tmp_path))), "NUMBA_CACHE_DIR": str(tmp_path)}

    def start(word):
        return subprocess.Popen(
            [sys.executable, "-c", code, word], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    processes = [start("int"), start("float")]
    assert [process.stdout.readline() for process in processes] == ["compiled\n"] * 2
    assert [process.communicate("\n")[0] for process in processes] == ["42 0\n", "42.0 0\n"]
    assert start("int+float").communicate()[0] == "42 42.0 2\n"


ONE = """
import os, sys, time, numpy as np, kernel
from pellucid.core.compilers import kept, translated
replace, sleep = os.replace, time.sleep
def late(*paths): os.replace = replace; print("compiled", flush=True); input(); replace(*paths)
def seen(seconds): time.sleep = sleep; print("waits", flush=True); sleep(seconds)
os.replace, time.sleep = late, seen
run = translated(kernel.twice)
print(run(21), sum(run.stats.cache_hits.values()))
"""


@pytest.fixture
def one(tmp_path):
    """Start a process that compiles a function, says so, and keeps the result when a line comes in."""
    (tmp_path / "kernel.py").write_text("def twice(x):\n    return 2 * x\n")
    root = str(Path(pellucid.__file__).resolve().parents[1])
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join((root, str(tmp_path))), "NUMBA_CACHE_DIR": str(tmp_path)}
    started = []

    def start():
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen([sys.executable, "-c", ONE], env=variables, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.skipif(kept.fcntl is None, reason="needs locks of ranges of files")
@pytest.mark.parametrize("end", ["done", "killed"])
def test_a_process_waits_for_the_one_that_compiles_the_same(one, end):
    first = one()
    assert first.stdout.readline() == "compiled\n"
    second = one()
    assert second.stdout.readline() == "waits\n"
    if end == "done":
        assert first.communicate("\n")[0] == "42 0\n"
        assert second.communicate("\n")[0] == "42 1\n"
    else:
        first.kill()
        assert second.communicate("\n")[0] == "compiled\n42 0\n"


@pytest.mark.skipif(kept.fcntl is None, reason="needs locks of ranges of files")
@pytest.mark.parametrize("broken", ["no folder", "no locks", "too long"])
def test_a_process_that_cannot_wait_compiles(broken, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EAGAIN if broken == "too long" else errno.ENOLCK, "refused")

    monkeypatch.setattr(kept, "PATIENCE", 0.0)
    opened = {}
    monkeypatch.setattr(kept, "_opened", opened)
    monkeypatch.setattr(kept, "_PAUSE", 0.0)
    monkeypatch.setattr(*((os, "open") if broken == "no folder" else (kept.fcntl, "lockf")), refuse)
    with kept.claimed(tmp_path, "code"):
        pass
    monkeypatch.undo()
    for file in opened.values():
        os.close(file)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("spent", [0.0, 5.0])
@pytest.mark.parametrize("listening", [False, True])
def test_whoever_waits_for_the_compiler_is_told_once(spent, listening, monkeypatch):
    lines, terminal, timers = [], Terminal(), []

    class Timer:
        def __init__(self, seconds, call):
            timers.append(self)
            self.seconds, self.call, self.cancelled = seconds, call, False

        def start(self):
            pass

        def cancel(self):
            self.cancelled = True

    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("pellucid")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(compiling.threading, "Timer", Timer)
    for name, value in {"_spent": spent, "_said": False}.items():
        monkeypatch.setattr(compiling, name, value)
    monkeypatch.setattr(logger, "level", logging.INFO if listening else logging.WARNING)
    logger.addHandler(handler)
    logger.manager._clear_cache()
    try:
        with compiling.said_if_long(), compiling.said_if_long():
            assert (len(timers), timers[0].seconds) == (1, max(0.0, 1.0 - spent))
        assert timers[0].cancelled
        timers[0].call()
        timers[0].call()
        with compiling.said_if_long():
            assert len(timers) == 1
    finally:
        logger.removeHandler(handler)
        logger.manager._clear_cache()
    said = lines if listening else terminal.getvalue().splitlines()
    assert len(said) == 1
    assert "pellucid warmup" in said[0]
    assert not (terminal.getvalue() if listening else lines)


def functions_called(dispatcher, seen):
    """A compiled function and, in turn, those that its text names."""
    if dispatcher not in seen:
        seen.add(dispatcher)
        function = dispatcher.py_func
        for value in inspect.getclosurevars(function).globals.values():
            inside = value if isinstance(value, tuple) else (value,)
            for one in inside:
                if isinstance(one, Dispatcher):
                    functions_called(one, seen)
    return seen


def test_kept_code_depends_on_every_file_that_its_functions_come_from_and_on_none_of_triton():
    kernels = Path(jit.__file__).parent
    entries = [path for path in sorted(kernels.rglob("*.py")) if "\n@entry" in path.read_text()]
    assert len(entries) > 20
    for path in entries:
        module = importlib.import_module(".".join(path.relative_to(kernels.parents[1]).with_suffix("").parts))
        stamped = set(jit.sources(path))
        assert not any("triton" in one.parts for one in stamped)
        for dispatcher in [one for one in vars(module).values() if isinstance(one, Dispatcher)]:
            for one in functions_called(dispatcher, set()):
                assert Path(one.py_func.__code__.co_filename) in stamped, f"{path}: {one}"


def test_a_change_elsewhere_in_the_kernels_compiles_nothing_again():
    kernels = Path(jit.__file__).parent
    blended = set(jit.sources(kernels / "blend" / "cpu" / "holes.py"))
    assert kernels / "stages" / "colour.py" not in blended
    assert not any({"warp", "color", "resize"} & set(one.parts) for one in blended)


@pytest.mark.skipif(not binding.get_host_cpu_features().get("avx512f", False), reason="needs registers of 512 bits")
def test_vectors_are_as_long_as_registers_where_asked_for():
    kernel = types.ModuleType("kernel")
    wide = KERNEL.replace("@fused.noinline", "@fused.noinline.wide", 1)
    exec(wide.replace("@entry", "@numba.njit").replace("import numpy as np", "import numba"), kernel.__dict__)
    x = np.arange(50.0)
    kernel.run(x)
    assert np.array_equal(x, (2 * np.arange(50.0) + 1) * 3 + 1)
    (code,) = kernel.run.inspect_asm().values()
    assert re.search("mulpd.*%zmm|fmadd.*pd.*%zmm", code)


def test_memory_for_a_thread_begins_with_a_line():
    for size in (1, 1000, 1 << 20):
        assert all(scratch(f"a test's {size}", size, dtype).ctypes.data % 64 == 0 for dtype in (np.float32, np.float64, np.int32))
