"""What the documentation site is made of: generated pages, links that hold, docstrings in a form that it reads."""

import json
import shutil
from pathlib import Path

import pytest

pages = pytest.importorskip("pellucid_bench.site.pages")
from pellucid_bench.site.check import check_site  # noqa: E402
from pellucid_bench.site.contrast import browsed, faint_texts  # noqa: E402


def test_links_lead_to_the_site_or_to_the_repository():
    def moved(text, source, page):
        return pages.relinked(text, source=source, page=page, repository="https://host/repo")

    assert moved("[a](docs/audit.md#x)", "CONTRIBUTING.md", "contributing.md") == "[a](audit.md#x)"
    assert moved("[a](../ARCHITECTURE.md)", "docs/audit.md", "audit.md") == "[a](architecture.md)"
    assert moved("[a](../performance.md)", "docs/adr/0001-x.md", "adr/0001-x.md") == "[a](../performance.md)"
    assert moved("[a](../../CONTRIBUTING.md)", "docs/adr/0001-x.md", "adr/0001-x.md") == "[a](../contributing.md)"
    assert moved("[a](src/pellucid)", "CONTRIBUTING.md", "contributing.md") == "[a](https://host/repo/tree/main/src/pellucid)"
    assert moved("[a](LICENSE)", "CONTRIBUTING.md", "contributing.md") == "[a](https://host/repo/blob/main/LICENSE)"
    assert moved("[a](https://else.where/x) [b](#here)", "docs/audit.md", "audit.md") == "[a](https://else.where/x) [b](#here)"
    assert (
        moved("`x[0](../y.md)`\n```\nz[1](../y.md)\n```", "docs/audit.md", "audit.md") == "`x[0](../y.md)`\n```\nz[1](../y.md)\n```"
    )


def test_every_public_name_is_on_one_page_of_the_reference():
    import pellucid

    shown = [
        name
        for page in pages.PACKAGES
        for name in pages.names(page)
        if pages.PACKAGES[page][0] in ("pellucid", "pellucid.transforms", "pellucid.random")
    ]
    missing = set(pellucid.__all__) - set(shown) - {"ALL", "VOLUMES", "functional", "__version__"}
    assert not missing
    generated = dict(pages.generated("https://host/repo"))
    assert "::: pellucid.transforms.RandomAffine" in generated["reference/transforms.md"]
    assert "ADR 30" in generated["adr/index.md"]
    assert set(generated) >= {"contributing.md", "architecture.md", "changelog.md", "security.md", "reference/index.md"}


def test_the_catalogue_tells_what_follows_and_what_a_pixel_costs():
    pytest.importorskip("skimage")
    import pellucid
    from pellucid.cli.gallery import example, photograph
    from pellucid_bench.site import catalogue

    batch = photograph()
    assert catalogue.followers(example(pellucid.RandomAffine), batch) == ["boxes", "keypoints", "masks"]
    assert catalogue.followers(example(pellucid.ColorJitter), batch) == []
    assert catalogue.elsewhere(pellucid.RandomD4) == "albumentations: `D4`, `SquareSymmetry`, `Transpose`"
    costs = json.loads(catalogue.COSTS.read_text())["ns"]
    assert set(costs) == {kind.__name__ for kind in pellucid.ALL}
    assert all(0 < cost < 1e5 for cost in costs.values())
    assert 0 < catalogue.measure(pellucid.RandomHorizontalFlip, calls=1) < 1e5


def test_the_check_finds_what_is_wrong(tmp_path):
    (tmp_path / "a.html").write_text('<p id="here"><a href="b.html#gone">x</a><a href="#here">y</a><a href="c.html">z</a>')
    (tmp_path / "b.html").write_text(
        '<script src="https://else.where/x.js"></script><a href="https://else.where">fine</a>'
        '<img src="no.png"><h2>t</h2><h1>u</h1><h1>v</h1>'
    )
    (tmp_path / "s.css").write_text("@font-face { src: url(https://else.where/f.woff2) }")
    faults = "\n".join(check_site(tmp_path))
    for wanted in (
        "a.html points to b.html#gone",
        "a.html points to c.html",
        "b.html loads https://else.where/x.js",
        "no.png",
        "s.css loads",
        "without a text",
        "from heading 0 to heading 2",
        "2 titles",
    ):
        assert wanted in faults, faults
    assert faults.count("\n") == 7, faults


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_searches_from_files_and_finds_faint_texts(tmp_path):
    """The search of the site asks a Worker, which browsers refuse to pages on disk; the site's own script stands in for it."""
    (tmp_path / "frame.js").write_text((Path(__file__).parents[2] / "docs/js/iframe-worker.js").read_text())
    (tmp_path / "worker.js").write_text("addEventListener('message', event => postMessage(event.data + 1))")
    (tmp_path / "index.html").write_text(
        """<body><p id="out">none</p><script src="frame.js"></script><script>
        const worker = new Worker("worker.js")
        worker.addEventListener("message", event => (document.getElementById("out").textContent = "answer " + event.data))
        worker.postMessage(41)</script></body>"""
    )
    assert "answer 42" in browsed((tmp_path / "index.html").as_uri())
    texts = '<p style="color: #999">faint</p><p style="color: #666">plain</p><h1 style="color: #888">large</h1>'
    (tmp_path / "texts.html").write_text(f'<body style="background: #fff">{texts}</body>')
    assert [one.rpartition(" ")[2] for one in faint_texts(tmp_path, ["texts.html"])] == 2 * ["faint"]


def test_docstrings_keep_every_section():
    pytest.importorskip("griffe")
    from pellucid_bench.site.docstrings import readable

    text = readable("Do it.\n\nArgs:\n    x: >= 0.\n\nGradient:\n    x: exact.\nErrors:\n    None.\nExample:\n    >>> 1\n    1\n")
    assert "x: \\>= 0" in text
    assert "**Gradient:** x: exact." in text
    assert "**Errors:** None." in text
    assert "\nExamples:\n    >>> 1" in text
