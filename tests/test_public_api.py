"""The public names, guarded: a change here is a decision, not an accident."""

import inspect
from dataclasses import fields

import pellucid
from pellucid import ALL, VOLUMES, Pipeline, Record
from pellucid.targets.options import Options
from tests import signatures

NAMES = {
    *(kind.__name__ for kind in (*ALL, *VOLUMES)),
    *(
        "ALL",
        "Bernoulli",
        "Beta",
        "Blocks",
        "Categorical",
        "CenteredUniform",
        "Constant",
        "Distribution",
        "ImplementationError",
        "InvalidArgument",
    ),
    *(
        "InvalidType",
        "Key",
        "Lambda",
        "Learnable",
        "LogUniform",
        "MultivariateNormal",
        "Normal",
        "Pipeline",
        "RaggedRecord",
        "Record",
        "Smooth",
        "TargetKind",
        "Transform",
        "Uniform",
        "VOLUMES",
        "__version__",
        "functional",
        "register",
    ),
}


def test_names():
    assert set(pellucid.__all__) == NAMES
    assert all(hasattr(pellucid, name) for name in NAMES)


def test_no_transform_of_the_first_release_is_lost():
    assert {kind.__name__ for kind in ALL} >= {
        *("RandomHorizontalFlip", "RandomVerticalFlip", "RandomRotation90", "RandomAffine", "RandomRotation", "RandomTranslate"),
        *("RandomShear", "RandomScale", "RandomLieAffine", "RandomPerspective", "RandomCrop", "RandomResizedCrop", "CenterCrop"),
        *("Resize", "Pad"),
        *("Letterbox", "ColorJitter", "RandomBrightness", "RandomContrast", "RandomSaturation", "RandomHue", "RandomGrayscale"),
        *("RandomInvert", "RandomGamma", "RandomPosterize", "RandomSolarize", "RandomEqualize", "RandomAutoContrast"),
        *("RandomChannelShuffle", "RandomGaussianBlur", "RandomSharpness", "RandomGaussianNoise"),
        *("RandomErasing", "Normalize", "Denormalize"),
        *("OneOf", "SomeOf", "Shuffle", "Apply"),
    }


def test_members():
    for name in (
        "apply",
        "draw",
        "entropy",
        "evaluations",
        "expected",
        "explain",
        "frozen",
        "kl",
        "numbers",
        "ranges_text",
        "from_dict",
        "inverse",
        "load",
        "plan",
        "ranges",
        "save",
        "show",
        "step",
        "to_dict",
        "valid_mask",
        "views",
        "worst",
    ):
        assert hasattr(Pipeline, name)
    for name in ("load", "matrix", "requires_grad_", "save", "size_in", "size_out", "src_from_dst", "step", "to", "with_param"):
        assert hasattr(Record, name)
    for name in ("at", "bounds", "cat", "map_to", "repeat", "stack", "where"):
        assert hasattr(Record, name)


def test_a_pipeline_inside_a_model_survives_module_apply():
    import torch

    model = torch.nn.Sequential(Pipeline([pellucid.RandomHorizontalFlip()]), torch.nn.Conv2d(3, 3, 1))
    seen = []
    model.apply(lambda module: seen.append(type(module).__name__))
    assert "Pipeline" in seen
    assert "Conv2d" in seen


def test_a_pipeline_takes_the_options_there_are():
    taken = [p for p in inspect.signature(Pipeline).parameters.values() if p.name not in ("transforms", "seed", "like")]
    assert [p.name for p in taken] == [option.name for option in fields(Options)]
    told = [p for p in taken if p.name not in ("out", "drop_invalid")]  # which ``like`` says where they do not
    plain, given = Options(), Options(**{p.name: {} if p.name in ("targets", "interpolation") else p.default for p in told})
    assert plain == given == Pipeline([]).options


def test_signatures_are_as_they_were():
    found = "\n".join(signatures.changes(signatures.FILE.read_text().splitlines(), signatures.lines()))
    assert not found, f"{found}\nThen run python -m tests.signatures --write."


def test_what_changed_is_told():
    before, now = ["a.f(x)", "a.g(x)", "a.h(x)"], ["a.f(x)", "a.g(x, *, y=1)", "a.i(x)"]
    gone, new, changed = signatures.changes(before, now)
    assert gone.startswith("gone: a.h(x)")
    assert new.startswith("new: a.i(x)")
    assert changed.startswith("changed: a.g(x)")
    assert "now: a.g(x, *, y=1)" in changed
