"""The audit over other libraries' transforms, where they are installed: ``python -m pellucid.audit.peers``.

Owns: which transforms with which arguments, and the Markdown page of results.
Must not: be imported by anything; the peers are no dependency.
Read next: ``table.py``.
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from pellucid.audit.finding import Severity
from pellucid.audit.report import AuditReport
from pellucid.audit.run import audit

__all__ = ["main", "survey"]

_TORCHVISION: dict[str, dict[str, Any]] = {
    "RandomHorizontalFlip": {"p": 1.0},
    "RandomVerticalFlip": {"p": 1.0},
    "RandomAffine": {"degrees": 15, "translate": (0.1, 0.1), "shear": 5, "interpolation": "bilinear"},
    "RandomRotation": {"degrees": 15, "interpolation": "bilinear"},
    "RandomPerspective": {"p": 1.0},
    "ElasticTransform": {"alpha": 5.0},
    "RandomResizedCrop": {"size": 24},
    "RandomCrop": {"size": 24},
    "Resize": {"size": 24},
    "Pad": {"padding": 2},
    "ColorJitter": {"brightness": 0.2, "contrast": 0.2, "saturation": 0.2, "hue": 0.05},
    "RandomGrayscale": {"p": 1.0},
    "RandomPhotometricDistort": {"p": 1.0},
    "GaussianBlur": {"kernel_size": 3},
    "GaussianNoise": {},
    "RandomAdjustSharpness": {"sharpness_factor": 1.5, "p": 1.0},
    "RandomAutocontrast": {"p": 1.0},
    "RandomEqualize": {"p": 1.0},
    "RandomInvert": {"p": 1.0},
    "RandomPosterize": {"bits": 4, "p": 1.0},
    "RandomSolarize": {"threshold": 0.5, "p": 1.0},
    "RandomErasing": {"p": 1.0},
    "Normalize": {"mean": [0.5] * 3, "std": [0.25] * 3},
}
_KORNIA: dict[str, dict[str, Any]] = {
    "RandomHorizontalFlip": {"p": 1.0},
    "RandomVerticalFlip": {"p": 1.0},
    "RandomAffine": {"degrees": 15.0, "translate": (0.1, 0.1), "shear": 5.0, "p": 1.0},
    "RandomRotation": {"degrees": 15.0, "p": 1.0},
    "RandomPerspective": {"p": 1.0},
    "RandomElasticTransform": {"p": 1.0},
    "RandomThinPlateSpline": {"p": 1.0},
    "RandomResizedCrop": {"size": (24, 24), "p": 1.0},
    "RandomCrop": {"size": (24, 24), "p": 1.0},
    "Resize": {"size": (24, 24), "p": 1.0},
    "ColorJitter": {"brightness": 0.2, "contrast": 0.2, "saturation": 0.2, "hue": 0.05, "p": 1.0},
    "ColorJiggle": {"brightness": 0.2, "contrast": 0.2, "saturation": 0.2, "hue": 0.05, "p": 1.0},
    "RandomBrightness": {"brightness": (0.8, 1.2), "p": 1.0},
    "RandomContrast": {"contrast": (0.8, 1.2), "p": 1.0},
    "RandomSaturation": {"saturation": (0.8, 1.2), "p": 1.0},
    "RandomHue": {"hue": (-0.1, 0.1), "p": 1.0},
    "RandomGamma": {"gamma": (0.5, 0.9), "p": 1.0},
    "RandomGrayscale": {"p": 1.0},
    "RandomGaussianBlur": {"kernel_size": 3, "sigma": (0.5, 1.5), "p": 1.0},
    "RandomMotionBlur": {"kernel_size": 3, "angle": 35.0, "direction": 0.5, "p": 1.0},
    "RandomGaussianNoise": {"p": 1.0},
    "RandomSharpness": {"p": 1.0},
    "RandomAutoContrast": {"p": 1.0},
    "RandomEqualize": {"p": 1.0},
    "RandomInvert": {"p": 1.0},
    "RandomPosterize": {"p": 1.0},
    "RandomSolarize": {"p": 1.0},
    "RandomErasing": {"p": 1.0},
    "RandomPlanckianJitter": {"p": 1.0},
    "RandomMedianBlur": {"p": 1.0},
    "RandomFisheye": {
        "center_x": torch.tensor([-0.3, 0.3]),
        "center_y": torch.tensor([-0.3, 0.3]),
        "gamma": torch.tensor([0.9, 1.0]),
        "p": 1.0,
    },
    "RandomClahe": {"p": 1.0},
    "Normalize": {"mean": torch.full((3,), 0.5), "std": torch.full((3,), 0.25)},
}
_LEARNABLE: list[tuple[str, str, tuple[float, float], dict[str, Any]]] = [
    ("RandomAffine", "degrees", (-10.0, 15.0), {}),
    ("RandomRotation", "degrees", (-10.0, 15.0), {}),
    ("RandomBrightness", "brightness", (0.8, 1.2), {}),
    ("RandomContrast", "contrast", (0.8, 1.2), {}),
    ("RandomSaturation", "saturation", (0.8, 1.2), {}),
    ("RandomGamma", "gamma", (0.8, 1.2), {}),
    ("RandomSharpness", "sharpness", (0.2, 0.8), {}),
    ("RandomSolarize", "thresholds", (0.3, 0.6), {}),
    ("RandomGaussianBlur", "sigma", (0.5, 1.5), {"kernel_size": 3}),
]


@contextmanager
def _foreign_kernels_ignored() -> Iterator[None]:
    """Let torchvision be imported beside a torch without its compiled operators: skip its fake kernels."""
    original = torch.library.register_fake

    def register_fake(op: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(op, str) and op.startswith("torchvision::"):
            return lambda function: function
        return original(op, *args, **kwargs)

    torch.library.register_fake = register_fake
    try:
        yield
    finally:
        torch.library.register_fake = original


def survey(library: str, *, compile: bool = False, limit: int | None = None) -> tuple[str, list[AuditReport]]:  # noqa: A002
    """Audit a library's transforms on random images; return its version and the reports."""
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    version, makers = _torchvision() if library == "torchvision" else _kornia()
    reports = []
    for name, make, leaf in makers[:limit]:
        fn, params = make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = audit(fn, images, params, name=name, compile=compile)
        report.measures = {k: m for k, m in report.measures.items() if leaf is None or k == leaf}
        reports.append(report)
    return version, reports


_Maker = tuple[str, Callable[[], tuple[Any, dict[str, torch.Tensor]]], str | None]


def _torchvision() -> tuple[str, list[_Maker]]:
    with _foreign_kernels_ignored(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torchvision
        from torchvision.transforms import InterpolationMode, v2

    def maker(name: str, options: dict[str, Any]) -> _Maker:
        words = dict(options)
        if "interpolation" in words:
            words["interpolation"] = InterpolationMode(words["interpolation"])
        return name, lambda: (getattr(v2, name)(**words), {}), None

    return torchvision.__version__, [maker(n, o) for n, o in _TORCHVISION.items()]


def _kornia() -> tuple[str, list[_Maker]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import kornia
        from kornia import augmentation

    def learnable(name: str, argument: str, bounds: tuple[float, float], more: dict[str, Any]) -> _Maker:
        def make() -> tuple[Any, dict[str, torch.Tensor]]:
            parameter = torch.nn.Parameter(torch.tensor(bounds))
            return getattr(augmentation, name)(**{argument: parameter, "p": 1.0, **more}), {argument: parameter}

        return f"{name}({argument}=nn.Parameter)", make, argument

    plain: list[_Maker] = [
        (n, lambda n=n, o=o: (getattr(augmentation, n)(**o), {}), None)  # type: ignore[misc]
        for n, o in _KORNIA.items()
    ]
    return kornia.__version__, plain + [learnable(*row) for row in _LEARNABLE]


def page(library: str, version: str, reports: list[AuditReport]) -> str:
    """Return one library's section of the page."""
    head = [
        "transform",
        "leaf",
        "gradient",
        "coverage",
        "double backward",
        "forward mode",
        "vmap",
        "checkpoint",
        "errors",
        "warnings",
    ]
    lines = [f"## {library} {version}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for report in reports:
        tail = [_digest(report, Severity.ERROR, True), _digest(report, Severity.WARNING, False)]
        if not report.measures:
            lines.append("| " + " | ".join([report.name, *[""] * 7, *tail]) + " |")
        for name, m in report.measures.items():
            modes = [m.modes.get(k, "") for k in ("double-backward", "forward-mode", "vmap", "checkpoint")]
            lines.append("| " + " | ".join([report.name, name, m.gradient, f"{100 * m.coverage:.0f} %", *modes, *tail]) + " |")
    worst = Counter(r.exit_code for r in reports)
    lines += ["", f"{len(reports)} audits: {worst[2]} with errors, {worst[1]} with warnings only, {worst[0]} with neither.", ""]
    return "\n".join(lines)


def _digest(report: AuditReport, severity: Severity, places: bool) -> str:
    """Return the categories at one severity, with their count and (for errors) the first line named."""
    found = [f for f in report.findings if f.severity == severity]
    words = []
    for category, count in Counter(f.category for f in found).items():
        place = next((f.place for f in found if f.category == category and f.place), None)
        word = str(category) if count == 1 else f"{category} x{count}"
        words.append(f"{word} (`{place}`)" if places and place else word)
    return ", ".join(words)


def main(arguments: list[str] | None = None) -> int:
    """Run the surveys and print or write the page."""
    parser = argparse.ArgumentParser(description="Audit the transforms of other libraries.")
    parser.add_argument("libraries", nargs="*", default=["torchvision", "kornia"], help="torchvision, kornia")
    parser.add_argument("-o", "--output", type=Path, help="write Markdown here instead of printing it")
    parser.add_argument("--compile", action="store_true", help="also compile (minutes)")
    parser.add_argument("--limit", type=int, help="only the first N transforms of each library")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    parts = []
    for library in chosen.libraries:
        if importlib.util.find_spec(library) is None:
            parts.append(f"## {library}\n\nNot installed.\n")
            continue
        version, reports = survey(library, compile=chosen.compile, limit=chosen.limit)
        parts.append(page(library, version, reports))
    text = "\n".join(parts)
    if chosen.output is None:
        print(text)
    else:
        chosen.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
