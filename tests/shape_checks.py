"""The run-time checker behind the shape annotations: on in tests/contract, off elsewhere, for Dynamo cannot trace through it.

It is switched by exchanging the code of the functions themselves: every name under which they were imported before sees the change.
"""

import importlib
import inspect
import pkgutil
from contextlib import contextmanager
from functools import cache
from types import CodeType, FunctionType

from beartype import BeartypeConf, beartype
from jaxtyping import jaxtyped

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
# Compiled kernels are left out: what Numba compiles must not be wrapped.
PACKAGES = ("geometry", "color", "engine.execution", "engine.drawing", "segments")
RANDOM = tuple(f"random.{name}" for name in ("distributions", "fields", "key", "learnable", "philox"))
COLORS = tuple(f"color.{name}" for name in ("mean", "reference"))
REFERENCES = (
    "blend.reference",
    *COLORS,
    "convolve.reference",
    "curve",
    "patches.reference",
    "resize.reference",
    "warp.reference",
    "warp.footprint",
)
NAMES = (*PACKAGES, *RANDOM, *(f"kernels.{name}" for name in REFERENCES))


def _modules():
    for name in NAMES:
        module = importlib.import_module(f"pellucid.{name}")
        yield module
        for inner in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{module.__name__}."):
            if not {"cpu", "triton"} & set(inner.name.split(".")):
                yield importlib.import_module(inner.name)


def _functions(owner):
    """Every function that a module, or a class of it, defines: methods, properties and cached ones, too."""
    for value in vars(owner).values():
        for part in (value.fget,) if isinstance(value, property) else (getattr(value, "__func__", value),):
            function = inspect.unwrap(part) if callable(part) else part
            if inspect.isfunction(function) and function.__module__ == (getattr(owner, "__module__", None) or owner.__name__):
                yield function
        if inspect.isclass(value) and value.__module__ == owner.__name__:
            yield from _functions(value)


def _through(*args, **kwargs):
    return ("the checked function").__call__(*args, **kwargs)


@cache
def _exchanges() -> list[tuple[FunctionType, CodeType, CodeType]]:
    """(function, its own code, code that calls its checked copy)."""
    found = {}
    for function in (function for module in _modules() for function in _functions(module)):
        own = function.__code__
        copy = FunctionType(own, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
        copy.__kwdefaults__, copy.__annotations__ = function.__kwdefaults__, function.__annotations__
        copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
        checked = jaxtyped(copy, typechecker=check)
        constants = tuple(checked if one == "the checked function" else one for one in _through.__code__.co_consts)
        found[function] = (function, own, _through.__code__.replace(co_consts=constants, co_freevars=own.co_freevars))
    return list(found.values())


@contextmanager
def shapes_checked():
    """Shape annotations hold while this is open, or the call that breaks one raises."""
    for function, _, checking in _exchanges():
        function.__code__ = checking
    try:
        yield
    finally:
        for function, own, _ in _exchanges():
            function.__code__ = own
