"""The report of ``pellucid learn demo``: one file, the look of the demo's, units on the axes."""

from html.parser import HTMLParser

from pellucid.cli.learned import write_learned
from pellucid.learn import ranges
from pellucid.learn.demo import Demo, Rotation, Turned
from pellucid.learn.run import Outcome


class Loads(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href")]


def test_the_page_needs_nothing_beside_it(tmp_path):
    for name in ("digits", "rotation-from-10"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ranges.png").write_bytes(name.encode())
    numbers = {"1.RandomAffine.degrees.low": -12.0, "1.RandomAffine.degrees.high": 12.0}
    demo = Demo(Outcome(tmp_path, numbers, numbers, 0.95), 0.9, (Turned(10.0, 44.0),), Rotation(steps=3))
    write_learned(tmp_path / "index.html", demo)
    page = (tmp_path / "index.html").read_text()
    assert len(Loads(page).found) == 2
    assert all(link.startswith("data:image/png;base64,") for link in Loads(page).found)
    for words in ("95.0 %", "90.0 %", "1 RandomAffine degrees", "-12 .. 12", "--accent", "prefers-color-scheme: dark"):
        assert words in page
    assert "$" not in page


def test_axes_have_units(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    seen = []
    monkeypatch.setattr(Figure, "savefig", lambda self, path, **_: (path.touch(), seen.append(self)))
    (tmp_path / "log.csv").write_text(
        "step,loss,1.RandomAffine.degrees.low,1.RandomAffine.degrees.high,2.RandomErasing.scale.low,2.RandomErasing.scale.high,0.Flip.gate.p\n"
        "1,2.0,-1,1,0,0.1,0.5\n2,1.0,-2,2,0,0.2,0.4\n"
    )
    ranges.plot_ranges(tmp_path / "log.csv", tmp_path / "ranges.png")
    labels = {axes.get_title(): (axes.get_xlabel(), axes.get_ylabel()) for axes in seen[0].axes}
    assert labels == {
        "loss": ("step", "loss"),
        "Flip p": ("step", "probability"),
        "RandomAffine degrees": ("step", "degrees"),
        "RandomErasing scale": ("step", "share of the area"),
    }


def test_every_range_of_the_recipes_has_a_unit():
    from pellucid.learn.run import narrow

    panels = {" ".join(name.split()[1:]) for name in ranges.readable(ranges.numbers_of(narrow()))}
    assert panels
    assert not {panel for panel in panels if not ranges.unit_of(panel)}
