"""Files of the corpus, mutated and read.

Whatever is in a file, reading it gives a result or one of our two errors, whose sentence names the file or the field.
"""

import random
import sys
import tempfile
import traceback
import warnings
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import pellucid
from pellucid.data import annotations, coco, voc, yolo
from pellucid.errors import InvalidArgument, InvalidType
from pellucid.pipeline import records, serialization

CORPUS = Path(__file__).with_name("corpus")
WORDS = (
    *(
        b"null",
        b"true",
        b"-1",
        b"0",
        b"1e999",
        b"NaN",
        b"nan",
        b"inf",
        b"9" * 400,
        b"0.5",
        b"[]",
        b"{}",
        b'""',
        b"[[",
        b"]]",
        b"{",
        b"}",
    ),
    *(
        b'"',
        b"'",
        b",",
        b"=",
        b"\n",
        b"\x00",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"<",
        b"</",
        b"&#0;",
        b"name",
        b"size",
        b"p",
        b"transforms",
    ),
    *(b"pellucid", b"bbox", b"learnable", b"__class__", b"../", b"[" * 3000, b"<a>" * 300),
)


def _pipeline(path):
    pellucid.Pipeline.load(path)


def _record(path):
    pellucid.Record.load(path)


def _annotations(path):
    """As ``pellucid augment`` reads what belongs to ``a.png``, of 40 x 60 pixels."""
    picture = PurePosixPath("a.png")
    form = (
        annotations.Coco(path)
        if path.suffix == ".json"
        else (annotations.Yolo if path.suffix == ".txt" else annotations.Voc)(path.parent)
    )
    if form.where(picture) is not None or path.suffix == ".json":
        form.faults()
        form.read(form.raw(picture), picture, (40, 60))


READERS = {
    "pipelines": (_pipeline, (serialization,)),
    "records": (_record, (records, serialization)),
    "annotations": (_annotations, (coco, yolo, voc)),
}
"""By folder of the corpus: what reads a file, and the modules that do."""


def mutated(content, others, chance):
    """One to four changes: bytes flipped, cut out, doubled, exchanged for words that mean something, spliced from another file."""
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(content) + 1)
        to = min(len(content), at + chance.choice((1, 1, 2, 4, 16, 200)))
        part = chance.choice(
            (
                b"",
                bytes([chance.randrange(256)]),
                content[at:to] * 2,
                chance.choice(WORDS),
                chance.choice(WORDS),
                (other := chance.choice(others))[(start := chance.randrange(len(other) + 1)) : start + chance.randint(1, 60)],
            )
        )
        content = content[:at] + part + content[to:]
    return content


def fault_of(kind, path):
    """What reading did that it must not, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            READERS[kind][0](path)
    except (InvalidArgument, InvalidType):
        return None
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:100]} ({Path(where.filename).name}:{where.lineno})"
    return None


def faults(kind, runs, seed, lines=None):
    """The faults that so many mutations find, each with the number of its run, by which it comes again."""
    corpus = sorted((CORPUS / kind).iterdir())
    contents = [path.read_bytes() for path in corpus]
    with tempfile.TemporaryDirectory() as folder:
        for run in range(runs):
            chance = random.Random(f"{kind} {seed} {run}")
            which = (run % len(corpus)) if run < len(corpus) else chance.randrange(len(corpus))
            path = Path(folder) / (f"a{corpus[which].suffix}" if kind == "annotations" else f"file{corpus[which].suffix}")
            path.write_bytes(mutated(contents[which], contents, chance) if run >= len(corpus) else contents[which])
            with lines.trace(READERS[kind][1]) if lines is not None else warnings.catch_warnings():
                found = fault_of(kind, path)
            path.unlink()
            if found:
                yield f"run {run}, of {corpus[which].name}: {found}"


class _Lines:
    """Which lines of some modules ran."""

    def __init__(self):
        self.ran, self.all = defaultdict(set), {}

    @contextmanager
    def trace(self, modules):
        for module in modules:
            if module.__file__ not in self.all:
                self.all[module.__file__] = set(
                    _of_functions(compile(Path(module.__file__).read_text(), module.__file__, "exec"), top=True)
                )

        def local(frame, event, argument):
            if event == "line":
                self.ran[frame.f_code.co_filename].add(frame.f_lineno)
            return local

        sys.settrace(lambda frame, event, argument: local if frame.f_code.co_filename in self.all else None)
        try:
            yield
        finally:
            sys.settrace(None)

    def __call__(self):
        return {Path(name).name: (len(self.ran[name] & lines), len(lines)) for name, lines in self.all.items()}


def _of_functions(code, top=False):
    if not top:
        yield from (line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno)
    for inner in code.co_consts:
        if hasattr(inner, "co_lines"):
            yield from _of_functions(inner)


@contextmanager
def covered():
    yield _Lines()
