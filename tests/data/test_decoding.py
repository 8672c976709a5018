"""Decoding: the backends agree with Pillow and OpenCV called by hand, and what is broken is named."""

import io
import struct

import cv2
import numpy as np
import pytest
import torch
from PIL import Image

import pellucid
from pellucid.data import decode
from tests.data.conftest import picture
from tests.refusals import refused

BACKENDS = ("pillow", "opencv", "torchvision")


def torchvision_or_skip():
    try:
        import torchvision.io  # noqa: F401
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision is absent, or built for another torch: {error}")
    if not hasattr(torch.ops.image, "decode_image"):
        pytest.skip("torchvision is there without its decoders, which are built for another torch")


def content(image, form="PNG", **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def backend_or_skip(backend):
    if backend == "torchvision":
        torchvision_or_skip()
    return backend


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("gray", [False, True])
def test_lossless_files_come_back(backend, gray, tmp_path):
    image = picture(23, 31, 1).convert("L" if gray else "RGB")
    wanted = torch.from_numpy(np.array(image))
    wanted = wanted[None] if gray else wanted.permute(2, 0, 1)
    (tmp_path / "a.png").write_bytes(content(image))
    for source in (content(image), tmp_path / "a.png", str(tmp_path / "a.png")):
        found = decode(source, backend=backend_or_skip(backend), gray=gray)
        assert found.dtype == torch.uint8
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_photographs_agree_with_opencv_within_a_few_levels(backend):
    raw = content(picture(60, 81, 2), "JPEG", quality=92)
    wanted = cv2.cvtColor(cv2.imdecode(np.frombuffer(raw, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    found = decode(raw, backend=backend_or_skip(backend)).permute(1, 2, 0).numpy()
    assert np.abs(found.astype(int) - wanted).max() <= 4


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied(backend, orientation):
    image, exif = picture(24, 40, 3), Image.Exif()
    exif[0x0112] = orientation
    raw = content(image, "JPEG", quality=95, exif=exif)
    wanted = cv2.cvtColor(cv2.imdecode(np.frombuffer(raw, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)  # which applies it, too
    found = decode(raw, backend=backend_or_skip(backend)).permute(1, 2, 0).numpy()
    assert found.shape == wanted.shape
    assert np.abs(found.astype(int) - wanted).max() <= 4


def test_modes_end_as_three_channels():
    base = picture(9, 8, 1)
    for mode in ("P", "LA", "RGBA", "1", "L"):
        assert decode(content(base.convert(mode))).shape == (3, 9, 8), mode
    assert decode(content(base.convert("CMYK"), "JPEG")).shape == (3, 9, 8)


@pytest.mark.parametrize("backend", ["pillow", "opencv"])
@pytest.mark.parametrize("gray", [False, True])
@pytest.mark.parametrize(
    ("least", "size"), [((200, 100), (200, 100)), ((100, 50), (100, 50)), ((101, 50), (200, 100)), ((1, 1), (50, 25))]
)
def test_a_smaller_size_that_is_enough(least, size, gray, backend):
    raw = content(picture(400, 200, 1), "JPEG")
    small, channels = decode(raw, least=least, backend=backend, gray=gray), 1 if gray else 3
    assert small.shape == (channels, *size)
    image = Image.open(io.BytesIO(raw))
    image.draft(None, size[::-1])
    wanted = torch.from_numpy(np.array(image.convert("L" if gray else "RGB"))).reshape(*size, channels).permute(2, 0, 1)
    assert (small.int() - wanted.int()).abs().max() <= 4
    assert decode(content(picture(400, 200, 1)), least=least, backend=backend).shape == (3, 400, 200)  # only JPEG can
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = content(picture(400, 200, 1), "JPEG", exif=exif)
    assert decode(turned, least=least[::-1], backend=backend).shape == (3, *size[::-1])


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_broken_is_named(backend, tmp_path):
    backend_or_skip(backend)
    whole = content(picture(60, 80, 1), "PNG")
    for name, raw in (("cut.png", whole[: len(whole) // 2]), ("empty.png", b""), ("text.png", b"no picture at all")):
        (tmp_path / name).write_bytes(raw)
        if name == "cut.png" and backend == "opencv":
            continue  # shows what it has
        refused(pellucid.InvalidArgument, name, decode, tmp_path / name, backend=backend)
    with pytest.raises(FileNotFoundError):
        decode(tmp_path / "gone.png", backend=backend)
    refused(pellucid.InvalidArgument, "backend: expected", decode, whole, backend="jpeg")


def test_a_truncated_photograph_is_named(tmp_path):
    raw = content(picture(60, 80, 1), "JPEG")
    (tmp_path / "cut.jpg").write_bytes(raw[: len(raw) // 2])
    refused(pellucid.InvalidArgument, r"cut\.jpg: expected a whole picture", decode, tmp_path / "cut.jpg")


def test_a_backend_that_is_missing_is_named(monkeypatch):
    from pellucid.data import decoding

    monkeypatch.setattr(decoding, "_installed", lambda backend: False)
    refused(pellucid.ImplementationError, "cannot be imported", decode, b"", backend="opencv")


def test_a_size_that_opencv_refuses_is_named(tmp_path):
    header = b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + struct.pack("<IiiHHIIiiII", 40, 8, 1 << 24, 1, 24, 0, 0, 0, 0, 0, 0)
    (tmp_path / "high.bmp").write_bytes(header + bytes(64))
    with pytest.raises(pellucid.InvalidArgument, match=r"high\.bmp: expected a whole picture, got a file that cannot be decoded"):
        decode(tmp_path / "high.bmp", backend="opencv")
