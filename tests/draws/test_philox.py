"""The generator against its published vectors, and the draws' independence of everything but their key."""

import pytest
import torch

from pellucid import Key, Pipeline, RandomAffine, RandomGaussianNoise, RandomHorizontalFlip
from pellucid.core import compilers
from pellucid.random import compiled
from pellucid.random.key import draw_words
from pellucid.random.normals import normal_pairs
from pellucid.random.patterns import field_words
from pellucid.random.philox import philox4x32, round_keys, uniforms
from tests.refusals import refused

KNOWN = [  # Random123, kat_vectors: counter, key, output
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_known_answers(counter, key, expected):
    c, k = torch.tensor(counter), torch.tensor(key)
    keys = round_keys(k[0], k[1])[:, :, None]
    words = philox4x32(torch.stack((c[0], c[2]))[:, None], torch.stack((c[1], c[3]))[:, None], keys)
    assert tuple(words[0].tolist()) == expected


@pytest.mark.parametrize("masked", [False, True])
def test_the_compiled_hash_gives_the_same_words(masked, monkeypatch):
    from pellucid.random import compiled

    if not compilers.numba_works():
        pytest.skip("Numba is not installed: only the tensor version runs")
    seed, step = torch.tensor((1 << 62) + 12345), torch.tensor((1 << 31) + 7)
    index = torch.tensor([0, 5, 1 << 33, (1 << 62) + 1])
    slots = torch.tensor([0, 1, (3 << 16) + 2])
    keep = torch.tensor([1, 0, 1]) if masked else None
    fast = draw_words(seed, step, index, slots, keep)
    monkeypatch.setattr(compilers, "_numba", False)
    assert torch.equal(fast, draw_words(seed, step, index, slots, keep))
    assert torch.equal(fast[:0], compiled.draw_words(seed, step, index[:0], slots, keep))
    torch.library.opcheck(torch.ops.pellucid.draw_words.default, (seed, step, index, slots, keep))


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 5, 7), (3, 40, 41)])
def test_the_compiled_hash_of_places_gives_the_same_words(shape, monkeypatch):
    words = torch.tensor([[0, 0], [3, 2**32 - 1], [2**32 - 1, 7], [0x243F6A88, 0x85A308D3]])
    ours = field_words(words.flip(1), shape), field_words(torch.cat((words, words), 1)[:, ::2], shape)
    assert compiled.field_words(words, 1) is not None, "otherwise this compares nothing"
    monkeypatch.setattr(compiled, "numba_works", lambda: False)
    theirs = field_words(words.flip(1), shape), field_words(torch.cat((words, words), 1)[:, ::2], shape)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_uniforms_are_open_and_uniform():
    assert uniforms(torch.tensor([0])).item() > 0
    assert uniforms(torch.tensor([0xFFFFFFFF])).item() < 1
    words = draw_words(torch.tensor(1), torch.tensor(2), torch.arange(20000), torch.arange(3))
    u = uniforms(words)
    counts = torch.histc(u.float(), bins=64, min=0, max=1)
    chi2 = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
    assert chi2 < 63 + 5 * (2 * 63) ** 0.5
    correlation = torch.corrcoef(u.T) - torch.eye(12, dtype=u.dtype)
    assert correlation.abs().max() < 5 / 20000**0.5


def test_normal_pairs_are_normal():
    words = draw_words(torch.tensor(1), torch.tensor(2), torch.arange(20000), torch.arange(3)).unflatten(1, (3, 4))
    n = normal_pairs(words, torch.float64).flatten()
    scipy_stats = pytest.importorskip("scipy.stats")
    assert scipy_stats.kstest(n.numpy()[:20000], "norm").pvalue > 1e-4


def test_every_part_of_the_key_matters():
    base = draw_words(torch.tensor(1), torch.tensor(2), torch.arange(4), torch.arange(2))
    for seed, step, index, slots in (
        (2, 2, torch.arange(4), torch.arange(2)),
        (1 + (1 << 40), 2, torch.arange(4), torch.arange(2)),
        (1, 3, torch.arange(4), torch.arange(2)),
        (1, 2, torch.arange(4) + (1 << 33), torch.arange(2)),
        (1, 2, torch.arange(4), torch.arange(2) + 7),
    ):
        other = draw_words(torch.tensor(seed), torch.tensor(step), index, slots)
        assert (other == base).double().mean() < 0.01


def test_any_batch_split_gives_the_same_bits():
    index = torch.tensor([5, 900, 3, 1 << 40, 77])
    whole = draw_words(torch.tensor(1), torch.tensor(2), index, torch.arange(6))
    parts = torch.cat([draw_words(torch.tensor(1), torch.tensor(2), part, torch.arange(6)) for part in index.split(2)])
    assert torch.equal(whole, parts)


def test_a_draw_depends_on_its_own_position_only():
    x = torch.rand(8, 3, 9, 9)
    key = Key(1, 1)
    alone = Pipeline([RandomHorizontalFlip(), RandomAffine(20)]).draw(x, key=key)
    never = Pipeline([RandomHorizontalFlip(p=0.0), RandomAffine(20), RandomGaussianNoise()]).draw(x, key=key)
    always = Pipeline([RandomHorizontalFlip(p=1.0), RandomAffine(20, p=0.5)]).draw(x, key=key)
    assert torch.equal(alone.params[1]["degrees"], never.params[1]["degrees"])
    assert torch.equal(alone.params[1]["degrees"], always.params[1]["degrees"])


def test_noise_field_is_standard_normal_and_keyed():
    from pellucid.kernels.blend import gaussian_field

    field = gaussian_field(torch.tensor([[1, 2], [1, 2], [3, 2]]), (3, 40, 40), torch.float64)
    assert torch.equal(field[0], field[1])
    assert (field[0] - field[2]).abs().mean() > 0.5
    assert abs(field[2].mean()) < 5 / 4800**0.5
    assert abs(field[2].std() - 1) < 5 / (2 * 4800) ** 0.5


def test_explicit_seed_and_step_as_tensors():
    x = torch.rand(2, 3, 5, 5)
    augment = Pipeline([RandomAffine(20)])
    assert torch.equal(augment(x, key=Key(torch.tensor(4), torch.tensor(9))), augment(x, key=Key(4, 9)))


@pytest.mark.parametrize(
    "bad", [{"seed": -1}, {"step": 1 << 32}, {"index": torch.rand(3)}, {"index": torch.zeros(2, 2, dtype=torch.int64)}]
)
def test_bad_keys_are_explained(bad):
    refused(ValueError, "Key", Key, **bad)


def test_index_of_the_wrong_length():
    refused(ValueError, r"Key\.index", RandomAffine(20), torch.rand(2, 3, 5, 5), key=Key(0, 0, torch.arange(3)))


def test_state_dict_resumes_the_stream():
    x = torch.rand(2, 3, 8, 8)
    augment = Pipeline([RandomAffine(20)], seed=3)
    augment(x)
    saved = {k: v.clone() for k, v in augment.state_dict().items()}
    following = [augment(x) for _ in range(3)]
    resumed = Pipeline([RandomAffine(20)], seed=99)
    resumed.load_state_dict(saved)
    assert all(torch.equal(resumed(x), expected) for expected in following)
