"""Evaluation for Hugging Face's image processors: what is written, and that theirs does the same."""

import json
import sys

import numpy as np
import pytest
import torch

import pellucid as P
from pellucid.interop import Unsupported, to_huggingface

CLIP = P.Normalize((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
HALVES = P.Normalize((0.5,) * 3, (0.5,) * 3)
PIPELINES = {
    "CLIP": [P.Resize(56, interpolation="bicubic"), P.CenterCrop(56), CLIP],
    "ViT": [P.Resize((48, 48)), HALVES],
    "DINO": [P.Resize(64, interpolation="bicubic"), P.CenterCrop(56), P.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))],
    "normalised alone": [HALVES],
}


def test_the_keys_are_those_of_their_files():
    assert to_huggingface(P.Pipeline(PIPELINES["CLIP"])) == {
        "image_processor_type": "CLIPImageProcessor",
        "do_convert_rgb": True,
        "do_rescale": True,
        "do_resize": True,
        "size": {"shortest_edge": 56},
        "resample": 3,
        "do_center_crop": True,
        "crop_size": {"height": 56, "width": 56},
        "do_normalize": True,
        "image_mean": list(CLIP.mean),
        "image_std": list(CLIP.std),
    }
    assert to_huggingface([HALVES])["do_resize"] is False


@pytest.mark.parametrize("name", PIPELINES)
def test_their_processor_does_the_same(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)  # theirs works on Pillow's pictures without it
    processing = pytest.importorskip("transformers.models.clip.image_processing_clip", exc_type=ImportError)
    described = json.loads(json.dumps(to_huggingface(PIPELINES[name])))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(described))
    theirs = processing.CLIPImageProcessor.from_pretrained(tmp_path)
    pipeline = P.Pipeline(PIPELINES[name])
    deviation = min(PIPELINES[name][-1].std)
    for height, width in ((80, 120), (120, 80), (64, 96)):  # whose crops have even margins
        image = np.random.default_rng(height).integers(64, 192, (height, width, 3), dtype=np.uint8)
        found = torch.from_numpy(theirs(image)["pixel_values"][0])
        ours = pipeline(torch.from_numpy(image).movedim(-1, 0))
        assert found.shape == ours.shape
        # Pillow rounds to bytes after each axis: half a level, and half a level times the sum of a cubic's weights, 1.25 at most.
        assert (found - ours).abs().max() * deviation * 255 <= 1.13, (height, width)


@pytest.mark.parametrize(
    ("steps", "named"),
    [
        ([P.RandomHorizontalFlip()], "RandomHorizontalFlip"),
        ([P.CenterCrop(8), P.Resize(8)], "in this order"),
        ([P.Resize(8), P.Resize(6)], "each step once"),
        ([P.CenterCrop(8, fill=0.5)], "fill"),
        ([P.Resize(8, antialias=False)], "antialias"),
    ],
)
def test_what_has_no_such_file_is_named(steps, named):
    with pytest.raises(Unsupported, match=named):
        to_huggingface(steps)
