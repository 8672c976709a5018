"""A reader who begins in an empty folder gets what the pages print."""

import pytest

reader = pytest.importorskip("pellucid_bench.site.reader")


@pytest.mark.slow
def test_start_and_three_pages_are_followed_literally(tmp_path):
    pytest.importorskip("skimage")
    for name in reader.PAGES:
        assert reader.follow(reader.ROOT / "docs" / name, tmp_path) == "", name
    assert (tmp_path / "sheet.png").exists()
    assert (tmp_path / "draws.png").exists()


@pytest.mark.slow
def test_a_project_of_albumentations_comes_over(tmp_path):
    assert reader.come_from_albumentations(tmp_path) == ""
    assert "HorizontalFlip" in (tmp_path / "augment.toml").read_text()


def test_what_goes_wrong_is_told(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n")
    assert "printed\n1\ninstead of\n2" in reader.follow(page, tmp_path)
    page.write_text("```python\nraise SystemExit('no')\n```\n")
    assert "no" in reader.follow(page, tmp_path)
    page.write_text("```python\n```\n\n```sh\npip install nothing\npellucid explain -p missing.toml\n```\n")
    assert "missing.toml" in reader.follow(page, tmp_path)
