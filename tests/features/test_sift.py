"""SIFT through OpenCV: our call describes given keypoints as OpenCV describes its own."""

import pytest
import torch

from pellucid import InvalidArgument
from pellucid.features.sift import describe_sift, detect_sift

cv2 = pytest.importorskip("cv2")
data = pytest.importorskip("skimage.data")


def test_equals_opencv_on_its_own_keypoints():
    picture = data.camera()
    keypoints, theirs = cv2.SIFT_create(300).detectAndCompute(picture, None)
    rows = torch.tensor([[*k.pt, k.size, k.angle] for k in keypoints])
    ours = describe_sift(torch.from_numpy(picture), rows[:, :2], rows[:, 2], rows[:, 3], root=False)
    theirs = torch.nn.functional.normalize(torch.from_numpy(theirs), dim=1)
    similarity = (ours * theirs).sum(1)
    # OpenCV's first octave is twice the image, where compute() starts at the image unless some keypoint lies below it.
    assert (similarity > 0.999).float().mean() > 0.99


def test_root_sift_is_the_square_root_of_the_histogram():
    picture = torch.from_numpy(data.camera())
    found = detect_sift(picture, 50)
    assert found.points.shape == (50, 2)
    assert bool((found.scores[:-1] >= found.scores[1:]).all())
    plain = describe_sift(picture, *found[:3], root=False)
    root = describe_sift(picture, *found[:3])
    assert torch.allclose(root, (plain / plain.sum(1, keepdim=True)).sqrt(), atol=1e-5)
    assert torch.allclose(describe_sift(picture[None, None].float() / 255, *found[:3]), root, atol=1e-6)


def test_edges():
    assert describe_sift(torch.zeros(32, 32), torch.zeros(0, 2), torch.zeros(0), torch.zeros(0)).shape == (0, 128)
    assert detect_sift(torch.zeros(32, 32), 5).points.shape == (0, 2)
    with pytest.raises(InvalidArgument, match="grey"):
        detect_sift(torch.zeros(3, 32, 32), 5)
