"""Calls by recipe: the same bits, draws and gradients as calls that look at the batch, and a bound on what Python does."""

import copy
import gc
import json
import pickle
import subprocess
import sys
import weakref

import numpy as np
import pytest
import torch

import pellucid as P
from pellucid.pipeline import recipes

PIPELINES = {
    "flip": lambda **options: P.Pipeline([P.RandomHorizontalFlip()], seed=3, **options),
    "affine": lambda **options: P.Pipeline([P.RandomAffine(degrees=20, translate=(0.2, 0.1))], seed=3, **options),
    "normalise": lambda **options: P.Pipeline([P.Normalize(0.4, 0.2)], seed=3, **options),
    "gray": lambda **options: P.Pipeline([P.RandomGrayscale(p=0.5)], seed=3, **options),
    "blur": lambda **options: P.Pipeline([P.RandomGaussianBlur(kernel_size=3, p=0.5)], seed=3, **options),
    "gamma": lambda **options: P.Pipeline([P.RandomGamma((0.5, 2.0), p=0.5)], seed=3, **options),
    "equalize": lambda **options: P.Pipeline([P.RandomEqualize(p=0.5)], seed=3, **options),
    "solarize": lambda **options: P.Pipeline([P.RandomSolarize((0.2, 0.8), p=0.5)], seed=3, **options),
    "holes": lambda **options: P.Pipeline(
        [P.RandomErasing(p=0.7, fill=(0.1, 0.5, 0.9)), P.RandomErasing(p=0.7, fill="random")], seed=3, **options
    ),
    "hole": lambda **options: P.Pipeline([P.CoarseDropout(3, height=(0.1, 0.3), width=(0.1, 0.3))], seed=3, **options),
    "shared": lambda **options: P.Pipeline([P.RandomInvert(), P.RandomResizedCrop((9, 7))], seed=3, same_on_batch=True, **options),
    "turned": lambda **options: P.Pipeline([P.RandomAffine(20), P.ColorJitter(0.4, 0.4, hue=0.1)], seed=3, **options),
    "cut": lambda **options: P.Pipeline([P.RandomCrop((9, 8)), P.RandomContrast(0.4), P.Normalize(0.4, 0.2)], seed=3, **options),
    "several passes": lambda **options: P.Pipeline(
        [
            P.RandomResizedCrop((10, 12)),
            P.RandomGaussianBlur(kernel_size=3, p=0.5),
            P.RandomGaussianNoise(0.1, p=0.7),
            P.RandomErasing(p=0.5),
            P.Normalize(0.4, 0.2),
        ],
        seed=3,
        **options,
    ),
    "flagship": lambda **options: P.Pipeline(
        [
            P.RandomResizedCrop((10, 12)),
            P.RandomHorizontalFlip(),
            P.ColorJitter(0.4, 0.4, saturation=0.4, hue=0.1),
            P.Normalize(0.4, 0.2),
        ],
        seed=3,
        **options,
    ),
}
PICTURES = {
    "one of bytes": lambda: torch.randint(0, 256, (3, 13, 17), dtype=torch.uint8),
    "floats": lambda: torch.rand(5, 3, 13, 17),
    "strided": lambda: torch.rand(4, 17, 13, 3).movedim(-1, 1),
    "array": lambda: np.random.default_rng(0).integers(0, 256, (13, 17, 3), dtype=np.uint8),
    "array that cannot be written to": lambda: np.broadcast_to(np.float32(0.5), (13, 17, 3)),
}


LISTS = {
    "tensors": lambda: [*torch.rand(3, 3, 13, 17)],
    "of bytes, channels last": lambda: [*torch.randint(0, 256, (3, 13, 17, 3), dtype=torch.uint8).movedim(-1, 1)],
    "arrays": lambda: [*np.random.default_rng(0).integers(0, 256, (4, 13, 17, 3), dtype=np.uint8)],
    "leaves": lambda: [torch.rand(3, 13, 17, requires_grad=True) for _ in range(3)],
}


@pytest.fixture
def looking(monkeypatch):
    """Calls without recipes."""

    def call(pipeline, *given, **options):
        with monkeypatch.context() as patched:
            patched.setattr("pellucid.pipeline.module.kind_of_call", lambda *call: None)
            return pipeline(*given, **options)

    return call


@pytest.mark.parametrize("picture", PICTURES)
@pytest.mark.parametrize("name", PIPELINES)
def test_a_recipe_gives_the_bits_of_a_call_that_looks(name, picture, looking):
    batch = PICTURES[picture]()
    warm, other = PIPELINES[name](), PIPELINES[name]()
    for _ in range(6):  # the stream advances alike; the first calls make the recipe
        (found, record), (wanted, expected) = warm(batch, return_record=True), looking(other, batch, return_record=True)
        assert type(found) is type(wanted)
        assert torch.equal(torch.as_tensor(found), torch.as_tensor(wanted))
        assert found.dtype == wanted.dtype
        assert torch.as_tensor(found).stride() == torch.as_tensor(wanted).stride()
        for values, others in zip(record.params, expected.params, strict=True):
            assert all(torch.equal(values[key], others[key]) for key in others)
        assert torch.equal(torch.as_tensor(warm.apply(batch, record)), torch.as_tensor(found))
    assert len(warm._recipes) == 1
    key = P.Key(5, step=9)
    assert torch.equal(torch.as_tensor(warm(batch, key=key)), torch.as_tensor(looking(other, batch, key=key)))
    assert warm.step == other.step == 6


@pytest.mark.parametrize("name", PIPELINES)
def test_gradients_by_recipe_are_those_of_a_call_that_looks(name, looking):
    batch, weights = torch.rand(3, 3, 13, 17, requires_grad=True), None
    pipeline = PIPELINES[name]()
    for step in range(4):
        found, wanted = pipeline(batch, key=P.Key(1, step)), looking(pipeline, batch, key=P.Key(1, step))
        weights = torch.rand_like(wanted)
        gradients = [torch.autograd.grad(out, batch, weights)[0] for out in (found, wanted)]
        assert torch.equal(found, wanted)
        assert torch.equal(*gradients)


DICTS = {
    "label": lambda image: {"image": image, "label": torch.arange(3)},
    "first": lambda image: {"image_id": 7, "labels": "a cat", "image": image},
    "alone": lambda image: {"image": image},
}


@pytest.mark.parametrize("form", DICTS)
@pytest.mark.parametrize("picture", PICTURES)
@pytest.mark.parametrize("name", PIPELINES)
def test_a_dict_with_one_picture_goes_as_the_picture(name, picture, form, looking):
    batch = DICTS[form](PICTURES[picture]())
    warm, other = PIPELINES[name](out="same"), PIPELINES[name](out="same")
    for _ in range(4):
        (found, record), (wanted, _) = warm(batch, return_record=True), looking(other, batch, return_record=True)
        assert list(found) == list(wanted)
        assert found is not batch
        assert all(found[key] is batch[key] for key in batch if key != "image")
        assert type(found["image"]) is type(wanted["image"])
        assert torch.equal(torch.as_tensor(found["image"]), torch.as_tensor(wanted["image"]))
        assert torch.equal(torch.as_tensor(warm.apply(batch, record)["image"]), torch.as_tensor(found["image"]))
    kept = warm._recipes[recipes.kind_of_call(batch)]
    assert type(kept) is recipes.DictRecipe or set(map(type, kept.values())) == {recipes.DictRecipe}
    assert warm.step == other.step == 4


def test_other_dicts_look_each_time(looking):
    image, pipeline = torch.rand(2, 3, 8, 9), PIPELINES["flip"](passthrough=("names",))
    for beside in (
        {"mask": torch.zeros(2, 8, 9)},
        {"boxes": torch.zeros(2, 1, 4)},
        {"target": {"labels": torch.arange(2)}},
        {"names": ["a", "b"]},
    ):
        batch = {"image": image, **beside}
        found = [pipeline(batch, key=P.Key(3)) for _ in range(3)][-1]
        assert torch.equal(found["image"], looking(pipeline, batch, key=P.Key(3))["image"])
        assert set(found) >= set(batch)
    assert not pipeline._recipes
    valid = PIPELINES["affine"](return_valid=True)
    assert [set(valid({"image": image})) for _ in range(3)] == [{"image", "valid"}] * 3


@pytest.mark.parametrize("pictures", LISTS)
@pytest.mark.parametrize("name", PIPELINES)
def test_a_list_of_one_kind_goes_as_a_batch(name, pictures, looking):
    batch = LISTS[pictures]()
    warm, other = PIPELINES[name](), PIPELINES[name]()
    for _ in range(4):
        found, wanted = warm(batch), looking(other, batch)
        assert type(found) is type(wanted)
        assert all(torch.equal(*pair) and pair[0].stride() == pair[1].stride() for pair in zip(found, wanted, strict=True))
        if pictures == "leaves":
            gradients = [torch.autograd.grad(sum(one.square().sum() for one in out), batch) for out in (found, wanted)]
            assert all(torch.equal(*pair) for pair in zip(*gradients, strict=True))
    assert type(warm._recipes.get(recipes.kind_of_call(batch))) is recipes.ListRecipe
    found, record = warm(batch, return_record=True)
    assert all(torch.equal(*pair) for pair in zip(warm.apply(batch, record), found, strict=True))
    assert warm.step == other.step + 1


@pytest.mark.parametrize("shape", [(3, 7), (7, 3), (5, 6, 1), (5, 6, 4)], ids=str)
@pytest.mark.parametrize("out", ["tensor", "same", "numpy"])
def test_lists_of_arrays_of_any_axes_repeat(shape, out):
    arrays = [*np.random.default_rng(0).integers(0, 256, (4, *shape), dtype=np.uint8)]
    pipeline = P.Pipeline([P.RandomHorizontalFlip()], seed=3, out=out)
    first, *others = (pipeline(arrays, key=P.Key(1, 2)) for _ in range(3))
    for other in others:
        for one, two in zip(first, other, strict=True):
            assert type(one) is type(two)
            assert np.array_equal(np.asarray(one), np.asarray(two))


def test_arrays_whose_numbers_begin_between_words_are_another_kind():
    whole = np.random.default_rng(0).random((13, 17, 3), np.float32)
    memory = np.empty(whole.nbytes + 1, np.uint8)
    memory[1:] = whole.reshape(-1).view(np.uint8)
    askew = memory[1:].view(np.float32).reshape(whole.shape)
    assert not askew.flags.aligned
    assert recipes.kind_of_call(askew) != recipes.kind_of_call(whole)
    pipeline = PIPELINES["flip"]()
    for _ in range(3):
        assert np.array_equal(pipeline(whole, key=P.Key(1, 2)), pipeline(askew, key=P.Key(1, 2)))


def test_lists_that_differ_have_no_kind():
    one = torch.rand(3, 5, 5)
    assert recipes.kind_of_call([one, torch.rand(3, 5, 6)]) is None
    assert recipes.kind_of_call([one, one.double()]) is None
    assert recipes.kind_of_call([one, one.numpy()]) is None
    assert recipes.kind_of_call([]) is None
    assert recipes.kind_of_call([[one]]) is None
    assert recipes.kind_of_call([one, one], True) is None


@pytest.mark.parametrize("name", ["flip", "flagship"])
def test_pictures_come_back_as_they_came(name, looking):
    array = np.random.default_rng(0).integers(0, 256, (13, 17, 3), dtype=np.uint8)
    picture, floats = pytest.importorskip("PIL.Image").fromarray(array), torch.from_numpy(array).movedim(-1, 0) / 255
    given = array, array[::-1], array[:, ::2], array[..., :1], array[..., 0], picture, picture.convert("L"), floats.bfloat16()
    for batch in given:
        pipeline = PIPELINES[name](out="same")
        for step in range(4):
            found, wanted = pipeline(batch, key=P.Key(1, step)), looking(pipeline, batch, key=P.Key(1, step))
            assert type(found) is type(wanted)
            if isinstance(found, torch.Tensor):
                assert found.dtype == wanted.dtype
                assert torch.equal(found, wanted)
            else:
                assert np.array_equal(np.asarray(found), np.asarray(wanted))
        assert len(pipeline._recipes) == 1


def test_a_leaf_without_gradients_goes_by_recipe(looking):
    pipeline, batch = PIPELINES["flip"](), torch.rand(2, 3, 5, 5, requires_grad=True)
    with torch.no_grad():
        for step in range(4):
            found, wanted = pipeline(batch, key=P.Key(1, step)), looking(pipeline, batch.detach(), key=P.Key(1, step))
            assert torch.equal(found, wanted)
            assert not found.requires_grad


def test_a_recipe_keeps_no_plan():
    """Tapes live as long as what they hang on, which a plan keeps."""
    pipeline = PIPELINES["flagship"]()
    for _ in range(3):
        pipeline(torch.rand(3, 13, 17))
    made = [weakref.ref(recipe.plan) for recipe in pipeline._recipes.values()]
    del pipeline
    gc.collect()
    assert made
    assert all(plan() is None for plan in made)


@pytest.mark.parametrize("shape", [(2, 3, 5, 5), (3, 5, 5)], ids=str)
def test_many_gradients_at_once(shape):
    batch = torch.rand(shape, requires_grad=True)
    pipeline = PIPELINES["affine"]()
    for _ in range(3):
        out, weights = pipeline(batch, key=P.Key(1)), torch.rand(4, *shape)
        (many,) = torch.autograd.grad(out, batch, weights, is_grads_batched=True, retain_graph=True)
        assert torch.equal(many[2], torch.autograd.grad(out, batch, weights[2])[0])


def test_channels_last_come_back_last(looking):
    pipeline, batch = PIPELINES["flagship"](channels_last=True), torch.rand(2, 13, 17, 3)
    for step in range(3):
        assert torch.equal(pipeline(batch, key=P.Key(1, step)), looking(pipeline, batch, key=P.Key(1, step)))


def test_who_listens_is_heard():
    batch = torch.rand(2, 3, 5, 5)
    assert recipes.kind_of_call(batch) is not None
    assert recipes.kind_of_call({"picture": batch}) is None
    assert recipes.kind_of_call(batch.to("meta")) is None
    assert recipes.kind_of_call(torch.nn.Parameter(batch)) is None
    assert recipes.kind_of_call(torch._neg_view(batch)) is None
    seen = []
    torch.func.vmap(lambda one: (seen.append(recipes.kind_of_call(one)), one)[1])(batch)
    assert seen == [None]


def test_copies_share_nothing():
    pipeline, batch = PIPELINES["flip"](), torch.rand(2, 3, 5, 5)
    for _ in range(3):
        pipeline(batch)
    for other in (copy.deepcopy(pipeline), pickle.loads(pickle.dumps(pipeline))):
        assert not other._recipes
        assert torch.equal(other(batch, key=P.Key(1)), pipeline(batch, key=P.Key(1)))


def test_many_kinds_of_calls_stay_bounded(monkeypatch):
    monkeypatch.setattr(recipes, "_MOST", 3)
    pipeline = PIPELINES["normalise"]()
    for width in range(4, 12):
        pipeline(torch.rand(1, 3, 4, width))
    assert len(pipeline._recipes) <= 3


COUNT = """
import json, torch, pellucid as P
from pellucid_bench.calls import count_calls
torch.set_num_threads(1)
x = torch.randint(0, 256, (3, 16, 16), dtype=torch.uint8)
def count(*transforms):
    pipeline = P.Pipeline(list(transforms), seed=0)
    return count_calls(lambda: pipeline(x)).python - 1
jitter = P.RandomResizedCrop(16), P.RandomHorizontalFlip(), P.ColorJitter(.4, .4, .4, .1), P.Normalize(.5, .2)
passes = *jitter[:2], P.RandomGaussianBlur(5, p=1.0), P.RandomGaussianNoise(.1), jitter[3]
print(json.dumps([count(P.RandomHorizontalFlip()), count(*jitter), count(*passes)]))
"""


def test_python_calls_of_one_picture_stay_few():
    """Counted in a process of its own: run-time shape checks, on in tests, are calls too."""
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    one, four, passes = json.loads(done.stdout.splitlines()[-1])
    assert one <= 33
    assert four <= 56
    assert passes <= 170  # four of them


@pytest.mark.parametrize("name", ["turned", "cut", "flagship"])
def test_a_pass_that_waits_for_a_mean_is_prepared(name, monkeypatch):
    pipeline, x = PIPELINES[name](), torch.rand(2, 3, 13, 17)
    for _ in range(4):
        pipeline(x)
    monkeypatch.setattr(recipes, "image_of", None)  # which whoever looks would call
    assert pipeline(x).isfinite().all()


@pytest.mark.parametrize("name", ["turned", "cut", "flagship"])
def test_so_is_its_gradient(name, monkeypatch):
    pipeline, x = PIPELINES[name](), torch.rand(1, 3, 10, 11, dtype=torch.float64, requires_grad=True)
    key = P.Key(1, 5)
    for _ in range(2):
        pipeline(x, key=key)
    monkeypatch.setattr(recipes, "image_of", None)
    assert torch.autograd.gradcheck(lambda x: pipeline(x, key=key), x)


@pytest.mark.parametrize("shape", [(2, 3, 13, 17), (3, 13, 17)], ids=str)
@pytest.mark.parametrize("name", ["flip", "affine", "flagship"])
def test_gradients_of_gradients_by_recipe(name, shape, looking):
    x, pipeline = torch.rand(shape, dtype=torch.float64, requires_grad=True), PIPELINES[name]()
    for step in range(3):
        found = []
        for call in (pipeline, lambda *given, **named: looking(pipeline, *given, **named)):
            (first,) = torch.autograd.grad(call(x, key=P.Key(1, step)).square().sum(), x, create_graph=True)
            found.append(torch.autograd.grad(first.square().sum(), x)[0])
        torch.testing.assert_close(*found)


@pytest.mark.parametrize(
    "transform", [P.ColorJitter(0.4, 0.4, saturation=0.4, hue=0.1), P.RandomContrast(0.4)], ids=["jitter", "contrast"]
)
def test_a_recipe_that_comes_first_leaves_no_tape_without_the_mean(transform):
    """A first call with its record plays no tape of the pass: the recipe records it, and later calls take that one."""
    x, key = torch.rand(5, 3, 11, 11, dtype=torch.float64), P.Key(7, 3)
    pipeline = P.Pipeline([transform], seed=3)
    first, _ = pipeline(x, key=key, return_record=True)
    assert all(torch.equal(pipeline(x, key=key), first) for _ in range(3))
