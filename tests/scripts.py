"""Modules that no package holds: the scripts of ``benchmarks/``, and files that a test has written."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def loaded(path: Path) -> ModuleType:
    """A module from its file, each time anew."""
    spec = spec_from_file_location(f"loaded_{path.stem}", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
