"""A folder of pictures, one folder for each class, of several sizes and formats."""

import hashlib

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from pellucid import Pipeline, RandomHorizontalFlip
from pellucid.cli import app
from pellucid.data.annotations import find_annotations
from pellucid.data.folders import Job, for_files, run
from pellucid.data.outputs import pictures_in, plan_of

FLIP = [RandomHorizontalFlip(p=1.0)]
_MIRROR = for_files(Pipeline(FLIP), seed=0)

SIZES = ((60, 80), (97, 51), (64, 64), (41, 120), (80, 60), (33, 35), (60, 80), (70, 90))


def picture(height, width, number):
    rows, columns = np.mgrid[0:height, 0:width]
    waves = [128 + 100 * np.sin((number + 1 + c) * rows / 17) * np.cos(columns / (9 + number)) for c in range(3)]
    return Image.fromarray(np.stack(waves, -1).astype(np.uint8))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("pictures")
    for number, (height, width) in enumerate(SIZES):
        path = root / ("cat", "dog")[number % 2] / f"{number:02d}.{('jpg', 'png')[number == 3]}"
        path.parent.mkdir(exist_ok=True)
        picture(height, width, number).save(path)
    return root


def call(*words, code=0):
    result = CliRunner().invoke(app, ["augment", *map(str, words)])
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result.output


def saved(tmp_path, steps, **options):
    path = tmp_path / "augment.toml"
    Pipeline(steps, **options).save(path)
    return path


def contents(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def made(source, out, form="auto", coco=None, masks=None, pipeline=_MIRROR):
    """What a call does, without its words: outcomes by picture."""
    pictures = pictures_in(source, without=(out,))
    labels = find_annotations(form, source, pictures, file=coco, masks=masks)
    plan_of(source, out, pictures, labels, 1)
    job = Job(source, out, pipeline, labels)
    job.manifest.begin(job.settings, pictures)
    outcomes = {str(outcome.picture): outcome for outcome in run(job, pictures)}
    job.finish(pictures)
    return outcomes
