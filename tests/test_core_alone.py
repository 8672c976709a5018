"""The core runs with torch, numpy, numba and jaxtyping alone, and what needs more says so."""

import json
import subprocess
import sys

# The process finds no distribution but those four and what they require themselves.
CODE = """
import json, re, sys
from importlib import metadata

def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()

allowed, waiting = set(), ["torch", "numpy", "numba", "jaxtyping"]
while waiting:
    name = plain(waiting.pop())
    try:
        needed = metadata.requires(name) or []
    except metadata.PackageNotFoundError:  # of another system
        continue
    if name not in allowed:
        allowed.add(name)
        waiting += [re.match(r"[\\w.-]+", one)[0] for one in needed if "extra ==" not in one]
hidden = {top for top, names in metadata.packages_distributions().items() if not allowed & set(map(plain, names))} - {"pellucid"}

class Alone:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Alone())

import os, tempfile, torch, pellucid
from pellucid import Key, Learnable, Pipeline, audit, data, detection, export, features, functional, interop, learn
from pellucid import losses, nn, policy, registration, training, views

steps = [pellucid.RandomAffine(Learnable(10.0)), pellucid.RandomErasing(fill="random"), pellucid.Normalize(0.5, 0.5)]
augment = Pipeline(steps, seed=0, impl="reference")
image, mask = torch.rand(2, 3, 16, 16), torch.zeros(2, 16, 16, dtype=torch.long)
batch = {"image": image, "mask": mask, "boxes": torch.tensor([[1.0, 1.0, 5.0, 5.0]]).repeat(2, 1, 1)}
out, record = augment(batch, key=Key(0), return_record=True)
out["image"].mean().backward()
found = {"learned": all(one.grad is not None for one in augment.parameters())}
found["numba"] = functional.rotate(torch.rand(1, 3, 8, 8), 10.0, impl="cpu").isfinite().all().item()
missing = {}
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "pipeline.json")
    augment.save(path)
    found["read"] = len(Pipeline.load(path).transforms) == 3

    from pellucid.training.loop import progress_bar

    def progress():
        with progress_bar(1, "title"):
            pass

    state = training.TrainState({"model": torch.nn.Linear(2, 1)})
    for name, call in {
        "toml": lambda: augment.save(os.path.join(folder, "pipeline.toml")),
        "decode": lambda: data.decode(b"no picture"),
        "checkpoint": lambda: training.save_checkpoint(folder, 1, state),
        "progress": progress,
        "cli": lambda: __import__("pellucid.cli"),
    }.items():
        try:
            call()
        except ImportError as error:
            missing[name] = str(error)
print(json.dumps([found, missing, sorted(hidden)]))
"""


def test_the_core_runs_alone_and_the_rest_says_what_it_lacks():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found, missing, hidden = json.loads(done.stdout.splitlines()[-1])
    assert all(found.values()), found
    assert {"typer", "rich", "PIL", "tomli_w", "pytest", "hypothesis"} <= set(hidden)
    for name, package in {
        "toml": "tomli-w",
        "decode": "pillow",
        "checkpoint": "'pellucid[train]'",
        "progress": "rich",
        "cli": "typer rich",
    }.items():
        assert missing[name].endswith(f"pip install {package}."), missing[name]
