"""The catalogue of transforms on the site: a list with thumbnails, and a page for each.

``python -m pellucid_bench.site.catalogue`` measures what a pixel costs, anew.

Owns: the facts of a transform that can be measured or read from it: what follows it, its names elsewhere, its time.
Must not: draw; ``pellucid.cli.gallery`` does.
Read next: ``hooks.py``.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from pellucid_bench.environment import environment

__all__ = ["COSTS", "catalogue", "elsewhere", "followers", "measure"]

COSTS = Path(__file__).with_name("costs.json")
_TITLES = {"boxes": "boxes", "keypoints": "keypoints", "mask": "masks"}
_INDEX = """# Gallery

Find a transform by its picture. Each leads to a page with three draws, the first drawn value swept from end to end, the gradient
that arrives, and code to paste. Below each name are the targets that follow, the gradient to the picture, and the time for a pixel
of three channels: floats, 8 x 3 x 224 x 224, one thread, the example of the page ({machine}).
"""
_PAGE = """# {name}

{summary}

```python
from pellucid import {imports}

augment = Pipeline(
    [{code}],
    seed=0,
)
```

{pictures}

Yellow: boxes. Dots: keypoints. Tint: mask classes. The gradient is that of a small fixed network.

| | in short |
|---|---|
| targets that follow | {follow} |
| gradients | {gradients} |
| time | {time} |
| in other libraries | {elsewhere} |
| all options | [reference](../reference/transforms.md#pellucid.transforms.{name}) |

[All transforms](index.md). `pellucid gallery -o DIR IMAGE` shows them on a picture of yours
([command line](../cli.md#pellucid-gallery)).
"""


def catalogue() -> Iterator[tuple[str, str | bytes]]:
    """(place on the site, content) of the list, the pages, their style and their pictures."""
    cli = import_module("pellucid.cli.gallery")
    batch, costs = cli.photograph(), json.loads(COSTS.read_text(encoding="utf-8"))
    shown = list(cli.entries(batch))
    notes: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for entry in shown:
            transform, (code, gradients) = entry.transform, cli.facts(entry)
            name, follow = type(transform).__name__, followers(transform, batch)
            spent = costs["ns"].get(name)
            facts = [", ".join(follow) or "the picture alone", transform.gradients.get("image", "none").replace("_", " ")]
            notes[name] = f"<small>{' · '.join(facts + ([_time(spent)] if spent else []))}</small>"
            yield (
                f"gallery/{name}.md",
                _PAGE.format(
                    name=name,
                    summary=cli.summary(type(transform)),
                    imports=", ".join(sorted({"Pipeline", *re.findall(r"\b([A-Z]\w+)\(", code)})),
                    code=code,
                    pictures=cli.fragment(entry, Path(folder)),
                    follow=", ".join(follow) or "none: it changes the picture alone",
                    gradients=gradients,
                    time=f"{_time(spent)} a pixel ({costs['machine']})" if spent else "not measured",
                    elsewhere=elsewhere(type(transform)) or "no equal is known",
                ),
            )
        for picture in sorted(Path(folder).iterdir()):
            yield f"gallery/{picture.name}", picture.read_bytes()
    listed = cli.contents(shown, lambda name: f"{name}.html", notes.__getitem__)
    yield "css/gallery.css", files("pellucid.cli").joinpath("gallery.css").read_text("utf-8")
    yield "gallery/index.md", _INDEX.format(machine=costs["machine"]) + f"\n{listed}\n"


def _time(spent: float) -> str:
    return f"{spent:.0f} ns" if spent >= 10 else f"{spent:.1f} ns" if spent >= 1 else f"{spent:.2f} ns"


def followers(transform: Any, batch: Mapping[str, Any]) -> list[str]:
    """The targets that three draws of a transform move or change: a measurement, not a list by hand."""
    import torch

    from pellucid import Key, Pipeline

    pipeline, moved = Pipeline([transform], impl="reference"), set()
    for step in range(3):
        out = pipeline(batch, key=Key(seed=0, step=step))
        moved |= {
            key for key in _TITLES for name in (key, f"{key}_valid") if name in batch and not torch.equal(out[name], batch[name])
        }
    return [title for key, title in _TITLES.items() if key in moved]


def elsewhere(kind: type[Any]) -> str:
    """The names of a transform in other libraries."""
    parts = []
    for library, found in getattr(kind, "like", {}).items():
        each = (found,) if isinstance(found, str) else found
        parts.append(f"{library}: {', '.join(f'`{name}`' for name in each)}")
    return "; ".join(parts)


def measure(kind: type[Any], *, calls: int = 7) -> float:
    """The least CPU time of a warm call of a transform's example, in ns for each pixel of the input."""
    import torch

    from pellucid import Pipeline

    pipeline = Pipeline([import_module("pellucid.cli.gallery").example(kind)], seed=0)
    batch = {"image": torch.rand(8, 3, 224, 224, generator=torch.Generator().manual_seed(0))}
    if kind.__name__ == "CopyPaste":  # it needs objects: a square in each picture
        batch["masks"] = torch.zeros(8, 1, 224, 224)
        batch["masks"][..., 64:160, 64:160] = 1
    spent = []
    for _ in range(calls + 2):
        begin = time.process_time_ns()
        pipeline(batch)
        spent.append(time.process_time_ns() - begin)
    return min(spent[2:]) / (8 * 224 * 224)


def main() -> None:
    """Measure the transforms named, or those that are missing, on one thread; keep the others."""
    import torch

    from pellucid.transforms import ALL

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found = json.loads(COSTS.read_text(encoding="utf-8"))["ns"] if COSTS.exists() else {}
    missing = [kind.__name__ for kind in ALL if kind.__name__ not in found]
    for kind in ALL:
        if kind.__name__ in (sys.argv[1:] or missing):
            found[kind.__name__] = float(f"{measure(kind):.3g}")
            facts = environment()
            machine = f"CPU time, {facts['cpu']}, {facts['date'][:10]}, load {facts['load']:.0f}"
            COSTS.write_text(json.dumps({"machine": machine, "ns": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
