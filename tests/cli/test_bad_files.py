"""A pipeline file with a mistake in it gets a sentence that names the place, never a traceback."""

import pytest

from pellucid import InvalidArgument, InvalidType, Pipeline

BAD = {
    "field missing": ('[[transforms]]\nname = "RandomAffine"', r"transforms\[0\] \(RandomAffine\).*degrees"),
    "transform not a table": ('transforms = ["RandomAffine"]', r"transforms\[0\]"),
    "transforms not a list": ("transforms = 3", "transforms"),
    "name not a string": ('[[transforms]]\nname = ["RandomAffine"]', r"transforms\[0\].name"),
    "distribution incomplete": (
        '[[transforms]]\nname = "RandomRotation"\ndegrees = {distribution = "Uniform", low = 1}',
        r"degrees.*high",
    ),
    "learnable not a number": ('[[transforms]]\nname = "RandomRotation"\ndegrees = {learnable = "q"}', r"degrees"),
    "distribution of strings": (
        '[[transforms]]\nname = "RandomRotation"\ndegrees = {distribution = "Uniform", low = "a", high = 1}',
        r"degrees",
    ),
    "seed not a number": ('seed = "a"\ntransforms = []', "seed"),
    "seed a fraction": ("seed = 1.5\ntransforms = []", "seed"),
    "targets not a table": ("targets = 3\ntransforms = []", "targets"),
    "interpolation not a table": ('interpolation = "nearest"\ntransforms = []', "interpolation"),
    "passthrough not a list": ("passthrough = 3\ntransforms = []", "passthrough"),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes_are_named(case, tmp_path):
    text, named = BAD[case]
    file = tmp_path / "pipeline.toml"
    file.write_text(f"pellucid = 1\n{text}\n")
    with pytest.raises((InvalidArgument, InvalidType), match=named):
        Pipeline.load(file)
