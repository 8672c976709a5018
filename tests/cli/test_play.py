"""``pellucid play``: what the page is answered, who may ask, and the page itself in a browser."""

import json
import shutil
import subprocess
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest
import torch
from PIL import Image

import pellucid as P
from pellucid.cli.files import to_tensor
from pellucid.cli.play import _address, _content, _opened, answer, catalogue, server
from tests.refusals import refused

PICTURE = _address(Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)))


def asked(*steps, **more):
    return {"picture": PICTURE, "transforms": [{"name": name, "options": options} for name, options in steps], **more}


@pytest.fixture
def address():
    with server(0, PICTURE) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{made.server_address[1]}"
        made.shutdown()


def post(address, content, **headers):
    request = urllib.request.Request(address + "/draw", content, {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request) as reply:
        return json.loads(reply.read())


def test_a_draw_is_that_of_the_pipeline_and_the_code_makes_it():
    found = answer(asked(("RandomRotation", {"degrees": "Uniform(-30, 30)"}), ("RandomInvert", {"p": "1"}), seed=3, draws=2))
    scope = {name: getattr(P, name) for name in P.__all__}
    pipeline = eval(found["python"], scope)
    image = to_tensor(_opened(_content(PICTURE)))
    for step, shown in enumerate(found["draws"]):
        here = pipeline(image, key=P.Key(3, step=step))
        torch.testing.assert_close(to_tensor(_opened(_content(shown))), here, atol=0.5 / 255 + 1e-6, rtol=0)
    assert "Warp[0] + Color[1]" in found["explain"]
    assert 'name = "RandomRotation"' in found["toml"]
    assert "gradient" not in found


def test_boxes_and_a_gradient_are_drawn():
    plain = answer(asked(("RandomHorizontalFlip", {"p": "1.0"}), draws=1))
    boxed = answer(asked(("RandomHorizontalFlip", {"p": "1.0"}), draws=1, boxes=[[0.1, 0.2, 0.5, 0.9]], gradient=True))
    assert boxed["draws"] != plain["draws"]
    assert _opened(_content(boxed["gradient"])).size == (32, 24)


@pytest.mark.parametrize("group", catalogue())
def test_every_transform_that_is_offered_draws(group):
    large = _address(_opened(_content(PICTURE)).resize((240, 180)))
    for one in catalogue()[group]:
        assert answer(asked((one["name"], dict(one["options"])), draws=1) | {"picture": large})["draws"], one["name"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (asked(("RandomRotation", {"degrees": "__import__('os')"})), "RandomRotation.degrees: expected a number"),
        (asked(("RandomRotation", {"degrees": "spam"})), "Put texts in quotes"),
        (asked(("RandomRotation", {"degres": "3"})), "did you mean degrees=?"),
        (asked(("system", {})), "expected the name of a transform"),
        (asked() | {"picture": "x"}, "Choose a PNG"),
        (asked() | {"picture": "data:image/png;base64,AAAA"}, "expected a picture that Pillow reads"),
        ([], "expected an object with a picture"),
    ],
)
def test_what_cannot_be_drawn_is_told(content, said, address):
    assert said in post(address, json.dumps(content).encode())["error"]


def test_only_this_machine_is_answered(address):
    whole = json.dumps(asked()).encode()
    assert "draws" in post(address, whole)
    for headers in ({"Host": "example.org"}, {"Content-Type": "text/plain"}):
        refused(urllib.error.HTTPError, "403", post, address, whole, **headers)
    refused(P.InvalidArgument, "--port 0", server, int(address.rpartition(":")[2]))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_the_page_draws_in_a_browser(address, tmp_path):
    options = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update"
    command = [
        "chromium",
        *options.split(),
        f"--user-data-dir={tmp_path}",
        "--virtual-time-budget=30000",
        "--dump-dom",
        address + "/",
    ]
    page = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    for wanted in ("RandomRotation(30)", "Draw 3</figcaption>", "ms a picture", "degrees"):
        assert wanted in page, wanted
    assert '<p id="error" role="alert"></p>' in page
