"""What goes in with so many bits comes out with as many, or is refused by name: files, arrays, tensors, Pillow's pictures."""

import io

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import pellucid
from pellucid import functional
from pellucid.cli import app
from pellucid.data import collate, decode
from tests.refusals import refused

GRAY = (np.arange(48 * 64).reshape(48, 64) * 21).astype(np.uint16)
COLOURS = np.stack([GRAY, GRAY // 2, GRAY // 3], -1)
NARROW = torch.from_numpy((COLOURS >> 8).astype(np.uint8)).permute(2, 0, 1)


def by_opencv(suffix, values, *options):
    done, content = cv2.imencode(suffix, values[..., ::-1] if values.ndim == 3 else values, options)
    assert done
    return content.tobytes()


def by_pillow(form, picture, **options):
    file = io.BytesIO()
    picture.save(file, form, **options)
    return file.getvalue()


DEEP = {
    "a.png": by_opencv(".png", GRAY),
    "colours.png": by_opencv(".png", COLOURS),
    "alpha.png": by_opencv(".png", np.dstack([COLOURS, GRAY])),
    "a.tif": by_opencv(".tif", GRAY),
    "colours.tif": by_opencv(".tif", COLOURS),
    "plain.tif": by_pillow("TIFF", Image.fromarray(GRAY)),
    "a.pgm": by_opencv(".pgm", GRAY),
    "12 bits.pgm": b"P5 64 48 4095\n" + (GRAY >> 4).astype(">u2").tobytes(),
    "colours.ppm": by_opencv(".ppm", COLOURS),
    "a.jp2": by_opencv(".jp2", GRAY),
    "colours.jp2": by_opencv(".jp2", COLOURS),
    "colours.avif": by_opencv(".avif", COLOURS >> 6, cv2.IMWRITE_AVIF_DEPTH, 10),
    "whole.tif": by_opencv(".tif", GRAY.astype(np.int32)),
    "float.tif": by_opencv(".tif", GRAY.astype(np.float32)),
    "plain float.tif": by_pillow("TIFF", Image.fromarray(GRAY.astype(np.float32))),
}
BYTES = (COLOURS >> 8).astype(np.uint8)
FITTING = {
    "a.png": by_opencv(".png", BYTES),
    "a.tif": by_opencv(".tif", BYTES),
    "a.ppm": by_opencv(".ppm", BYTES),
    "a.bmp": by_opencv(".bmp", BYTES),
    "a.jp2": by_pillow("JPEG2000", Image.fromarray(BYTES), irreversible=False),
}
SIXTEEN = {
    "pillow": {"a.png": GRAY, "a.tif": GRAY, "plain.tif": GRAY, "a.pgm": GRAY, "a.jp2": GRAY},
    "opencv": {"a.png": GRAY, "a.tif": GRAY, "plain.tif": GRAY, "a.pgm": GRAY, "a.jp2": GRAY}
    | dict.fromkeys(("colours.png", "colours.tif", "colours.ppm", "colours.jp2"), COLOURS)
    | {"alpha.png": np.stack([GRAY // 2, GRAY // 3, GRAY], -1)},  # written from the last channel to the first
}
"""Files whose levels a backend reads whole."""
REFUSED = r"expected a picture of 8 bits a channel, or of 16 if the backend reads them all, got one of \d\d bits\. Pass backend="


@pytest.mark.parametrize("gray", [False, True])
@pytest.mark.parametrize("backend", ["pillow", "opencv"])
@pytest.mark.parametrize("name", DEEP)
def test_files_keep_sixteen_bits_or_are_refused(name, backend, gray, tmp_path):
    (tmp_path / name).write_bytes(DEEP[name])
    if name in SIXTEEN[backend]:
        found = decode(tmp_path / name, backend=backend, gray=gray)
        assert (found.dtype, found.shape) == (torch.uint16, (1 if gray else 3, 48, 64))
        wanted = SIXTEEN[backend][name]
        wanted = wanted if wanted.ndim == 2 else np.moveaxis(wanted, -1, 0)
        assert (gray and wanted.ndim == 3) or np.array_equal(found.numpy(), np.broadcast_to(wanted, found.shape))
        flip = pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=1.0)])
        batch = collate(flip, backend=backend, gray=gray)([(tmp_path / name, 1)])
        assert torch.equal(batch[0][0].to(torch.int32), found.to(torch.int32).flip(-1))
        return
    for source in (tmp_path / name, DEEP[name]):
        refused(pellucid.InvalidArgument, REFUSED, decode, source, backend=backend, gray=gray)
    refused(pellucid.InvalidArgument, REFUSED, collate(pellucid.Pipeline([]), backend=backend, gray=gray), [(tmp_path / name, 1)])


@pytest.mark.parametrize("gray", [False, True])
@pytest.mark.parametrize("backend", ["pillow", "opencv"])
def test_a_tiff_with_signs_keeps_them(backend, gray):
    signed = (GRAY.astype(np.int32) - 32768).astype(np.int16)
    content = cv2.imencode(".tif", signed)[1].tobytes()
    found = decode(content, backend=backend, gray=gray)
    assert (found.dtype, found.shape) == (torch.int16, (1 if gray else 3, 48, 64))
    assert np.array_equal(found.numpy(), np.broadcast_to(signed, found.shape))


@pytest.mark.parametrize("backend", ["pillow", "opencv"])
@pytest.mark.parametrize("name", FITTING)
def test_files_of_eight_bits_keep_them(name, backend):
    assert torch.equal(decode(FITTING[name], backend=backend), torch.from_numpy(BYTES).permute(2, 0, 1))


@pytest.mark.parametrize("backend", ["pillow", "opencv"])
def test_palettes_and_single_bits_keep_their_colours(backend):
    palette = Image.fromarray((GRAY >> 12).astype(np.uint8), "P")
    palette.putpalette([value for i in range(16) for value in (i, 255 - i, 7 * i)])
    bits = Image.fromarray(GRAY > 30000)
    few = Image.fromarray((BYTES[..., 0] >> 4) * 17)  # 16 levels: a file of 4 bits
    for picture, options in ((palette, {}), (palette, {"bits": 4}), (bits, {}), (few, {})):
        wanted = torch.from_numpy(np.array(picture.convert("RGB"))).permute(2, 0, 1)
        assert torch.equal(decode(by_pillow("PNG", picture, **options), backend=backend), wanted)
    assert decode(by_pillow("PNG", bits), backend=backend, gray=True).unique().tolist() == [0, 255]


def test_the_command_writes_sixteen_bits_or_refuses_by_name(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    (source / "deep.png").write_bytes(DEEP["a.png"])
    pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=1.0)], out="numpy").save(tmp_path / "flip.toml")

    def augmented(out, *words):
        return CliRunner().invoke(app, ["augment", str(source), str(tmp_path / out), "-p", str(tmp_path / "flip.toml"), *words])

    for out, words in (("colours", ()), ("gray", ("--gray",))):
        assert augmented(out, *words).exit_code == 0
        found = cv2.imread(str(next((tmp_path / out).glob("*.png"))), cv2.IMREAD_UNCHANGED)
        assert found.dtype == np.uint16
        assert np.array_equal(found if found.ndim == 2 else found[..., 1], GRAY[:, ::-1])
    (source / "deep.png").write_bytes(DEEP["colours.png"])
    result = augmented("refused")
    assert result.exit_code != 0
    assert "deep.png" in result.output
    assert "16 bits" in result.output
    assert not list((tmp_path / "refused").glob("*.png"))


ARRAYS = ("uint16", "int16", "int32", "int64", "uint32", "bool", "float16", "float32", "float64", "uint8")


@pytest.mark.parametrize("dtype", ARRAYS)
def test_arrays_and_tensors_keep_their_type_or_are_refused(dtype):
    array = (COLOURS >> 8).astype(dtype)
    tensor = torch.from_numpy(array).permute(2, 0, 1)
    flip, turn = pellucid.RandomHorizontalFlip(p=1.0), pellucid.RandomRotation(10.0)
    calls = {
        "pipeline": lambda: pellucid.Pipeline([flip])(array),
        "a dict": lambda: pellucid.Pipeline([turn])({"image": array})["image"],
        "a list": lambda: pellucid.Pipeline([turn])([array, array])[0],
        "a tensor": lambda: pellucid.Pipeline([turn])(tensor),
        "alone": lambda: turn(array),
        "collate": lambda: collate(pellucid.Pipeline([flip]))([array])[0],
        "rotate": lambda: functional.rotate(tensor, 10.0),
        "resize": lambda: functional.resize(tensor, (9, 9)),
        "brightness": lambda: functional.adjust_brightness(tensor, 1.2),
        "blur": lambda: functional.gaussian_blur(tensor, 3),
        "normalize": lambda: functional.adjust_gamma(tensor, 2.0),
    }
    kept = dtype == "uint8" or dtype.startswith("float")
    deep = dtype in ("uint16", "int16")  # through pipelines, which say what 1 is; not through functions
    for name, call in calls.items():
        if kept or (deep and name in ("pipeline", "a dict", "a list", "a tensor", "alone", "collate")):
            assert call().dtype == tensor.dtype, name
            continue
        refused(pellucid.InvalidType, f"float.* got torch.{dtype}", call)
    mask = pellucid.Pipeline([flip])({"image": BYTES, "mask": array[..., 0]})["mask"]  # labels have any type
    assert np.array_equal(mask.numpy(), array[:, ::-1, 0])


@pytest.mark.parametrize("mode", ["I;16", "I;16B", "I;16L", "I", "F"])
def test_deep_pictures_of_pillow_are_not_clipped(mode):
    picture = Image.frombytes(mode, (2, 2), bytes(range(16))[: 16 if mode in "IF" else 8])
    flip = pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=1.0)])
    if mode in ("F", "I;16", "I;16B", "I;16L"):
        found = flip(picture)
        assert found.dtype == (torch.float32 if mode == "F" else torch.uint16)
        assert torch.equal(found[0].double().flip(-1), torch.from_numpy(np.array(picture).astype(np.float64)))
    else:
        refused(pellucid.InvalidType, r"got torch\.u?int", flip, picture)
