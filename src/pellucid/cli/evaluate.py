"""``pellucid eval-descriptor`` and ``export-descriptor``: a table of descriptors on planar sequences, and their export.

Owns: the options of the commands and where their files go.
Must not: measure; ``pellucid.features.evaluation`` does.
Read next: ``../features/evaluation/run.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.errors import need

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from pellucid.errors import InvalidArgument
    from pellucid.features.data.sequences import PlanarSequence
    from pellucid.features.evaluation.run import OnPair

__all__ = ["eval_descriptor", "export_descriptor"]


def eval_descriptor(
    directory: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="a sequence in HPatches layout, or a folder of such")
    ] = None,
    weights: Annotated[
        list[Path] | None, typer.Option("--weights", "-w", help="a run's folder, .safetensors or .pt; may be repeated")
    ] = None,
    joint: Annotated[
        list[Path] | None, typer.Option("--joint", "-j", help="a run's folder with a detector: measure it with its own keypoints")
    ] = None,
    baselines: Annotated[str, typer.Option(help="to compare with: rootsift,sift,raw,random")] = "rootsift,sift,raw,random",
    photographs: Annotated[str, typer.Option(help="without DIR: bundled photographs to warp and measure on, comma-separated")] = "",
    keypoints: Annotated[int, typer.Option(help="SIFT keypoints per image, at most")] = 2048,
    factor: Annotated[float, typer.Option(help="a patch's side in keypoint sizes")] = 8.0,
    json: Annotated[Path | None, typer.Option(help="write everything measured to this file")] = None,
    markdown: Annotated[Path | None, typer.Option(help="write the table to this file")] = None,
    pictures: Annotated[Path | None, typer.Option(help="write pictures of matches into this folder")] = None,
    seed: Annotated[int, typer.Option(help="seed of the warps, without DIR")] = 0,
    refine: Annotated[
        bool, typer.Option("--refine", help="refine matched points to subpixels by aligning the pictures around them")
    ] = False,
    agreeing: Annotated[
        bool, typer.Option("--agreeing", help="with --refine: keep only matches around which the pictures agree")
    ] = False,
) -> None:
    """Measure descriptors on sequences with known homographies: mAP, MMA, homographies, repeatability."""
    import json as text

    from pellucid.cli.files import write_bytes
    from pellucid.cli.waiting import waiting
    from pellucid.errors import InvalidArgument
    from pellucid.features.evaluation.methods import baselines as peers
    from pellucid.features.evaluation.methods import joint_method, network_method
    from pellucid.features.evaluation.protocol import Protocol
    from pellucid.features.evaluation.run import evaluate_methods
    from pellucid.features.evaluation.table import markdown_table, plain_table
    from pellucid.features.weights import detector_notes, load_descriptor, load_detector

    need("train", "cv2", "safetensors", *(() if directory else ("skimage",)))
    protocol = Protocol(keypoints=keypoints, factor=factor)
    rows = peers(baselines)
    methods = {label: network_method(load_descriptor(path)) for label, path in _labels("--weights", weights, rows).items()}
    for label, path in _labels("--joint", joint, rows).items():
        scale = detector_notes(path).get("patch_scale", 16.0)
        own = joint_method(load_detector(path), load_descriptor(path), protocol, scale=scale)
        methods[f"{label}, own keypoints"] = own
    methods |= rows
    broken: list[InvalidArgument] = []
    sequences = _sequences(directory, photographs, seed, broken)
    drawn: dict[tuple[str, str], Any] = {}
    keep = None if pictures is None else _keep_pictures(drawn, list(methods))
    with waiting("Measuring") as say:
        announced = (_announced(sequence, say) for sequence in sequences)
        report = evaluate_methods(announced, methods, protocol, on_pair=keep, refine=refine, agreeing=agreeing)
    typer.echo(plain_table(report))
    if json is not None:
        write_bytes(json, (text.dumps(report.to_dict(), indent=1) + "\n").encode())
    if markdown is not None:
        write_bytes(markdown, markdown_table(report).encode())
    if pictures is not None:
        _write_pictures(drawn, pictures)
    if broken:
        raise InvalidArgument(f"{len(broken)} sequences are not in the table. " + " ".join(map(str, broken)))


def export_descriptor(
    weights: Annotated[Path, typer.Argument(help="a run's folder, .safetensors or .pt")],
    output: Annotated[Path, typer.Argument(help="a file ending in .onnx, or in .pt2 for a torch.export program")],
) -> None:
    """Write a trained descriptor for use without Pellucid."""
    need("train", "safetensors")
    if output.suffix == ".onnx":
        need("onnx", "onnx", "onnxscript")
    from pellucid.cli.waiting import waiting
    from pellucid.features.export import export_descriptor as export
    from pellucid.features.weights import load_descriptor

    with waiting(f"Exporting {weights}"):
        written = export(load_descriptor(weights), output)
    typer.echo(f"{written}")


def _announced(sequence: PlanarSequence, say: Callable[[str], None]) -> PlanarSequence:
    say(f"Measuring on {sequence.name}")
    return sequence


def _labels(option: str, paths: Sequence[Path] | None, taken: Container[str]) -> dict[str, Path]:
    """Short, unique names for paths: the run's folder or the file, with as many parent folders in front as are needed."""
    from pellucid.errors import invalid

    places = {(path.parent if path.stem == "descriptor" and not path.is_dir() else path).resolve(): path for path in paths or ()}
    if len(places) < len(paths or ()):
        raise invalid(option, expected="each run or file once", got=", ".join(map(str, paths or ())))
    labels: dict[str, Path] = {}
    for place, path in places.items():
        others = [other for other in places if other != place]
        parts = next(
            n
            for n in range(1, len(place.parts) + 1)
            if all(other.parts[-n:] != place.parts[-n:] for other in others) and "/".join(place.parts[-n:]) not in taken
        )
        labels["/".join(place.parts[-parts:])] = path
    return labels


def _sequences(directory: Path | None, photographs: str, seed: int, broken: list[InvalidArgument]) -> Iterator[PlanarSequence]:
    """Read one sequence at a time. Errors are collected in ``broken``, and raised if no sequence can be read."""
    from pellucid.errors import invalid
    from pellucid.features.data.photographs import bundled_photographs
    from pellucid.features.data.sequences import find_sequences, warped_sequences

    if (directory is None) == (not photographs):
        raise invalid("DIR", expected="either a folder or --photographs", got="both" if directory else "neither")
    if directory is not None:
        return _readable(find_sequences(directory), broken)
    names = [name.strip() for name in photographs.split(",") if name.strip()]
    return iter(warped_sequences(bundled_photographs(names), seed=seed))


def _readable(folders: Sequence[Path], broken: list[InvalidArgument]) -> Iterator[PlanarSequence]:
    from pellucid.errors import InvalidArgument
    from pellucid.features.data.sequences import read_sequence

    for folder in folders:
        try:
            yield read_sequence(folder)
        except InvalidArgument as error:
            broken.append(error)
    if len(broken) == len(folders):
        raise broken[0]


def _keep_pictures(drawn: dict[tuple[str, str], Any], methods: list[str]) -> OnPair:
    """Draw pair (1, 3) of each sequence (or its only pair) for the first method and for RootSIFT (or else the second method)."""
    from pellucid.features.evaluation.pictures import draw_matches

    shown = methods[:1] + [name for name in ("rootsift", *methods[1:]) if name in methods[1:]][:1]

    def keep(sequence: str, method: str, k: int, views: Any, described: Any, result: Any) -> None:
        if method in shown and k <= 2:
            caption = f"{sequence} 1-{k + 1}   {method}: {result.correct} of {result.matches} matches right"
            caption += f", AP {result.average_precision:.3f}"
            images = (views[0].image, views[1].image)
            drawn[sequence, method] = draw_matches(images, described, result, caption=caption)

    return keep


def _write_pictures(drawn: dict[tuple[str, str], Any], folder: Path) -> None:
    from pellucid.features.evaluation.pictures import stack_pictures

    for sequence in dict.fromkeys(name for name, _ in drawn):
        stack_pictures([picture for (name, _), picture in drawn.items() if name == sequence], folder / f"matches-{sequence}.png")
