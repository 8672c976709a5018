"""How kernels are compiled: the Numba decorators, what they leave out, and some intrinsics.

Owns: the compiler flags and why they are safe.
Must not: be imported by anything that ``import pellucid`` imports: Numba takes a second to load.
Read next: ``warp/cpu/sweep.py``.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numba
from llvmlite import ir
from numba.core import ir as numba_ir
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.ir_utils import build_definitions, mk_unique_var
from numba.extending import intrinsic

from pellucid.core.compilers import quick_compiling, translated

try:
    from numba.core.codegen import JITCodeLibrary
except ImportError:  # a Numba that has moved it; `parts_work` tells
    JITCodeLibrary = object

__all__ = [
    *("entry", "exact", "fused", "number", "parts_work", "pick", "rank", "sign", "sources", "summing", "without_refcount"),
]


_ROOT = Path(__file__).parents[2]
_IMPORT = re.compile(r"^\s*from (pellucid\.[\w.]+) import (\([^)]*\)|.+)", re.MULTILINE)


@cache
def _imported(path: Path) -> list[Path]:
    """Our files that a file imports from."""
    found = []
    for module, names in _IMPORT.findall(path.read_text()):
        folder = _ROOT.joinpath(*module.split("."))
        places = [folder, *(folder / name for name in re.findall(r"\w+", names))]
        found += [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py") if file.exists()]
    return found


def sources(path: Path) -> list[Path]:
    """The files that code compiled from this one may come from: itself and, in turn, all of ours that it imports from."""
    found, waiting = {Path(__file__)}, [path]
    while waiting:
        following = waiting.pop()
        if following not in found:
            found.add(following)
            waiting += _imported(following)
    return sorted(found)


@cache
def _stamp(path: Path) -> str:
    """A hash of those files: Numba's cache compiles anew if one of them changes, and only then."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in sources(path))).hexdigest()


def _quickly(dispatcher: Any) -> Any:
    compiling = dispatcher.compile

    def quick(signature: Any) -> Any:
        with quick_compiling():
            return compiling(signature)

    dispatcher.compile = quick
    return dispatcher


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """Code that Python never calls: it is linked into the entry's, and optimized and translated there.

    Numba would optimize and translate it here as well, and again in every function between here and the entry: a quarter of all
    compiling. The code would not be better for it, as the entry's optimizer sees everything.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        del name
        return 0  # as for any function without a wrapper

    @property
    def codegen(self) -> Any:
        return _Nowhere(self._codegen)


class _Nowhere:
    """A code generator without a place for a function's environment, which only translated code has."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, env: Any) -> None:
        """Nothing to set."""


# Passes for what no kernel has: closures, sums of whole arrays, ``with``, functions inlined as Python, messages of errors.
_UNUSED = frozenset({
    "DumpParforDiagnostics", "FindLiterallyCalls", "InlineClosureLikes", "InlineInlinables", "InlineOverloads",
    "LiteralPropagationSubPipelinePass", "LiteralUnroll", "MakeFunctionToJitFunction", "NopythonRewrites", "RewriteDynamicRaises",
    "WithLifting",
})  # fmt: skip


@register_pass(mutates_CFG=False, analysis_only=False)
class _Opening(FunctionPass):  # type: ignore[misc]
    """Insert at a function's beginning the attributes that its decorator states; in an entry, also take the owner off arrays."""

    _name = "pellucid_opening"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        blocks, kind = state.func_ir.blocks, getattr(state.func_id.func, "kind", exact)
        block = blocks[min(blocks)]
        begin: list[Any] = []

        def call(part: Any, target: str, *given: Any) -> None:
            name, into = (numba_ir.Var(block.scope, text, block.loc) for text in (mk_unique_var("$opening"), target))
            begin.append(numba_ir.Assign(numba_ir.Global(part.__name__, part, block.loc), name, block.loc))
            begin.append(numba_ir.Assign(numba_ir.Expr.call(name, given, (), block.loc), into, block.loc))

        for part in kind.openings:
            call(part, mk_unique_var("$opened"))
        for step in block.body:
            begin.append(step)
            if kind.entry and isinstance(step, numba_ir.Assign) and isinstance(step.value, numba_ir.Arg):
                owned = numba_ir.Var(block.scope, mk_unique_var(f"{step.target.name}.owned"), step.loc)
                begin[-1] = numba_ir.Assign(step.value, owned, step.loc)
                call(without_refcount, step.target.name, owned)
        block.body = begin
        state.func_ir._definitions = build_definitions(blocks)
        return True


class _PlainCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler, and the pass that applies the decorators' attributes."""

    _unused: frozenset[str] = frozenset()

    def define_pipelines(self) -> list[Any]:
        manager = PassManager("kernels")
        for kind, purpose in super().define_pipelines()[0].passes:
            if kind.__name__ == "NopythonTypeInference":  # branches that an absent argument closes are pruned by now
                manager.add_pass(_Opening, "what decorators say")
            if kind.__name__ not in self._unused:
                manager.add_pass(kind, purpose)
        manager.finalize()
        return [manager]


class _EntryCompiler(_PlainCompiler):
    """The same without the passes that no kernel needs: the machine code is the same."""

    _unused = _UNUSED


class _PartCompiler(_EntryCompiler):
    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *rest: Any) -> None:
        super().__init__(typingctx, targetctx, library or _Part(targetctx.codegen(), "part"), *rest)


class _CheckedPart(Compiler):  # type: ignore[misc]
    """Compile parts as parts where this Numba can, and as Numba usually does where it cannot."""

    def __new__(cls, *arguments: Any) -> Any:
        return (_PartCompiler if parts_work() else _PlainCompiler)(*arguments)


class _CheckedEntry(Compiler):  # type: ignore[misc]
    def __new__(cls, *arguments: Any) -> Any:
        return (_EntryCompiler if parts_work() else _PlainCompiler)(*arguments)


@cache
def parts_work() -> bool:
    """Whether these compilers work with this Numba's internals: two small functions are compiled and called before any kernel.

    Where it fails, a warning says so once, and compiling takes longer.
    """
    try:
        part = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=_PartCompiler)(lambda x: x + 1)
        result = numba.njit(pipeline_class=_EntryCompiler)(lambda x: 2 * part(x))(20)
        problem = "" if result == 42 else f"the result was {result}"
    except Exception as error:  # internals that have changed raise many things
        problem = f"{type(error).__name__}: {error}".splitlines()[0]
    if problem:
        warnings.warn(f"Numba {numba.__version__} compiles Pellucid's kernels more slowly than others ({problem}).", stacklevel=2)
    return not problem


class _Kind(NamedTuple):
    """A decorator that compiles functions with these flags; ``fused.noinline.wide`` and the like add attributes."""

    flags: frozenset[str]
    entry: bool = False
    openings: tuple[Any, ...] = ()

    @property
    def noinline(self) -> _Kind:
        """Keep the function out of line. Otherwise everything is inlined, and compiling takes minutes."""
        return self._replace(openings=(*self.openings, noinline))

    @property
    def inlined(self) -> _Kind:
        """Inline the function into every caller: cheaper if it is called once per strip with many arrays."""
        return self._replace(openings=(*self.openings, inlined))

    @property
    def wide(self) -> _Kind:
        """Use vectors as long as the processor's registers: LLVM takes half of 512 bits on most processors that have them.

        An inlined function follows its caller. Loops over rows that begin at a cache line, as those of ``scratch`` do, gain;
        loops whose vectors lie across two lines do not.
        """
        return self._replace(openings=(*self.openings, wide))

    def __call__(self, function: Any) -> Any:
        function.kind = self
        options: dict[str, Any] = {"nogil": True, "boundscheck": False, "error_model": "numpy", "fastmath": set(self.flags)}
        if not self.entry:
            return numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=_CheckedPart, **options)(function)
        stamp = _stamp(Path(function.__code__.co_filename))
        return _quickly(translated(function, stamp=stamp, no_cfunc_wrapper=True, pipeline_class=_CheckedEntry, **options))


exact = _Kind(frozenset())
"""IEEE arithmetic in the order written: coordinates, which must equal the reference's bit for bit."""

fused = _Kind(frozenset({"contract"}))
"""Multiply-adds may be fused: never less precise, and 1 * x + 0 stays x. NaN, infinity and signed zero keep their rules."""

summing = _Kind(frozenset({"contract", "reassoc"}))
"""Sums may be split over vector lanes: another order, but always the same one."""

entry = _Kind(frozenset({"contract"}), entry=True)
"""A function that Python calls. Only entries are cached on disk, with all that they call. Slices of their arrays cost no
reference counting: see `without_refcount`."""


def _attribute(name: str, text: str) -> Any:
    """An intrinsic that adds an LLVM attribute to the function which calls it."""

    def typed(context: Any) -> Any:
        del context

        def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
            del signature, args
            # llvmlite's own ``add`` refuses attributes that are not in its list of names; ``set.add`` goes past that check.
            set.add(builder.function.attributes, text)
            return target.get_dummy_value()

        return numba.types.none(), codegen

    typed.__name__ = name
    return intrinsic(typed)


noinline, inlined = _attribute("noinline", "noinline"), _attribute("inlined", "alwaysinline")
wide = _attribute("wide", '"prefer-vector-width"="512"')


@intrinsic
def pick(context: Any, question: Any, this: Any, other: Any) -> Any:
    """``this if question else other`` as one select instruction, with both computed; Python's form first becomes branches."""
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        del target, signature
        return builder.select(*args)

    return this(question, this, other), codegen


@intrinsic
def sign(context: Any, x: Any) -> Any:
    """1 or -1 by a number's sign bit, also for zeros."""
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        del target, signature
        kind = args[0].type
        function = builder.module.declare_intrinsic("llvm.copysign", [kind], ir.FunctionType(kind, [kind, kind]))
        return builder.call(function, [ir.Constant(kind, 1.0), args[0]])

    return x(x), codegen


@intrinsic
def without_refcount(context: Any, arrays: Any) -> Any:
    """The same array without its owner, or a tuple with the owner taken off each array in it.

    Slices of it cost no reference counting, which is most of a short row's time. The caller of the compiled function must hold the
    arrays until it returns.
    """
    del context

    def borrow(target: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, numba.types.BaseTuple):
            parts = [borrow(target, builder, part, builder.extract_value(value, i)) for i, part in enumerate(kind)]
            return target.make_tuple(builder, kind, parts)
        if not isinstance(kind, numba.types.Array):
            return value
        borrowed = target.make_array(kind)(target, builder, value=value)
        borrowed.meminfo = borrowed.meminfo.type(None)
        borrowed.parent = borrowed.parent.type(None)
        return borrowed._getvalue()

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        return borrow(target, builder, signature.args[0], args[0])

    return arrays(arrays), codegen


_WIDTHS = {numba.types.float32: numba.types.int32, numba.types.float64: numba.types.int64}


def _turned(builder: Any, whole: Any) -> Any:
    """Flip all bits but the sign of negative numbers: then floats' bits order as integers do. The flip is its own inverse."""
    sign = builder.ashr(whole, ir.Constant(whole.type, whole.type.width - 1))
    return builder.xor(whole, builder.lshr(sign, ir.Constant(whole.type, 1)))


@intrinsic
def rank(context: Any, x: Any) -> Any:
    """An integer that orders as ``x`` does, and that vectors compare in one instruction; NaN ranks beyond the infinities."""
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _turned(builder, builder.bitcast(args[0], target.get_value_type(signature.return_type)))

    return _WIDTHS[x](x), codegen


@intrinsic
def number(context: Any, order: Any) -> Any:
    """The float whose `rank` this is."""
    del context
    kind = next(kind for kind, width in _WIDTHS.items() if width == order)

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(_turned(builder, args[0]), target.get_value_type(signature.return_type))

    return kind(order), codegen
