"""What is drawn anew for each frame of a clip (ADR 77), and clips longer than memory."""

import copy
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import pellucid as P
from pellucid import InvalidArgument, Key, Pipeline, Record, Smooth, Uniform
from pellucid.boxes import as_tracks
from pellucid.types import ImageSpec
from tests.cases import CASES, IDS, images
from tests.refusals import refused

STEPS = [P.RandomHorizontalFlip(), P.RandomAffine(10), P.RandomGaussianNoise(sigma=0.1), P.RandomBrightness((0.5, 1.5), p=0.7)]
NAMES = ("noise", "Brightness")


def clip(frames=6, samples=2):
    return torch.rand(samples, frames, 3, 12, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_noise_differs_between_frames_where_it_is_asked_to():
    still = torch.full((2, 4, 3, 16, 16), 0.5)
    standing = Pipeline([P.RandomGaussianNoise(sigma=0.1)], seed=0)(still)
    each = Pipeline([P.RandomGaussianNoise(sigma=0.1)], seed=0, per_frame=("noise",))(still)
    assert torch.equal(standing[:, 0], standing[:, 3])
    noise = (each - 0.5).flatten(2)
    assert torch.allclose(noise.std(-1), torch.full((2, 4), 0.1), atol=0.01)
    alike = torch.corrcoef(noise.flatten(0, 1))
    assert (alike - torch.eye(8)).abs().max() < 0.15


def test_a_clip_is_its_frames_and_the_rest_stands():
    x, augment = clip(), Pipeline(STEPS, seed=3, per_frame=NAMES)
    out, record = augment(x, return_record=True)
    frames = record.frames(6)
    assert torch.equal(augment.apply(x.flatten(0, 1), frames), out.flatten(0, 1))
    assert torch.equal(augment.apply(x, record), out)
    assert len(frames.params[3]["brightness"].unique()) == 12
    assert 0 < frames.params[3]["gate"].sum() < 12
    assert frames.params[1]["degrees"].unflatten(0, (2, 6)).unique(dim=1).shape == (2, 1)
    assert record.matrix.shape == (2, 3, 3)  # which no colour changes
    assert torch.equal(augment.inverse(out, record)[0, 0], augment.inverse(out[:1, :1], record[:1])[0, 0])


@pytest.mark.parametrize("grow", [P.RandomRescale((0.5, 1.5)), P.RandomShortestSize((8, 12)), P.RandomCropFromBorders(left=0.2)])
def test_sizes_are_not_drawn_for_each_frame(grow):
    with pytest.raises(InvalidArgument, match="per_frame: expected transforms that keep all frames at one size"):
        Pipeline([P.RandomHorizontalFlip(), grow], per_frame=(type(grow).__name__,), seed=0)(clip(samples=1))
    augment = Pipeline([P.RandomHorizontalFlip(), grow], per_frame=("flip",), seed=0)
    assert len(augment(clip(samples=1))[0]) == 6
    refused(InvalidArgument, r"clips of one final size.*same_on_batch", augment, clip(samples=16))


def test_frames_do_not_depend_on_how_many_there_are_or_on_other_samples():
    augment, key = Pipeline(STEPS, per_frame=NAMES), Key(1, 2, torch.tensor([5, 8]))
    record = augment.draw(clip(), key=key)
    short, long = record.frames(3), record.frames(9)
    alone = augment.draw(clip()[1:], key=Key(1, 2, torch.tensor([8]))).frames(9)
    for at in (2, 3):
        for name, value in long.params[at].items():
            assert torch.equal(value.unflatten(0, (2, 9))[:, :3], short.params[at][name].unflatten(0, (2, 3)))
            assert torch.equal(value[9:], alone.params[at][name])


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_every_number_of_a_transform_may_move_smoothly(case):
    """Frames of a clip are the frames alone, and their draws differ."""
    x = images(case, batch=2, dtype=torch.float64)
    spec = ImageSpec(x.shape[1], *x.shape[2:])
    clips = x[:, None].expand(-1, 4, -1, -1, -1)
    for name, kind in {} if case.transform.decides(spec) else case.transform.draws(spec).items():
        if (
            type(kind) is not Uniform
            or getattr(case.transform, name, None) is None
            or isinstance(case.transform, P.MixUp | P.CutMix)
        ):
            continue  # mixing takes partners among samples
        augment = Pipeline([replace(case.transform, **{name: Smooth(kind)})], seed=1)
        out, record = augment(clips, return_record=True)
        frames = record.frames(4)
        assert torch.equal(augment.apply(clips.flatten(0, 1), frames), out.flatten(0, 1)), name
        assert len(frames.params[0][name][:4].unique()) > 1


def test_brightness_of_frames_has_its_distribution():
    record = Pipeline([P.RandomBrightness((0.5, 1.5))], seed=0, per_frame=("Brightness",)).draw(torch.rand(3, 8, 8))
    values = record.frames(20000).params[0]["brightness"]
    stats = pytest.importorskip("scipy.stats")
    assert stats.kstest(values.numpy(), "uniform", (0.5, 1.0)).pvalue > 1e-3
    assert abs(torch.corrcoef(torch.stack([values[1:], values[:-1]]))[0, 1]) < 0.03


def test_maps_of_frames_move_targets_with_their_frame():
    jolt = Pipeline([P.RandomTranslate((0.2, 0.2))], seed=0, per_frame=("translate",))
    x, points = clip(), torch.tensor([[4.0, 5.0]], dtype=torch.float64).expand(2, 6, 1, 2)
    out, record = jolt({"image": x, "keypoints": points}, return_record=True)
    moved = record.frames(6).map_points(points.flatten(0, 1))
    assert torch.equal(out["keypoints"].flatten(0, 1), moved)
    assert len(moved.flatten(0, 1).unique(dim=0)) == 12
    with pytest.raises(InvalidArgument, match="frames"):
        _ = record.matrix


def test_choices_vectors_fields_and_views():
    steps = [
        P.OneOf([P.RandomRotation(30), P.RandomInvert()]),
        P.RandomElastic(3),
        P.ColorJitter(0.2, 0.2, saturation=0.2, hue=0.1),
    ]
    augment, x = Pipeline(steps, seed=1, per_frame=("OneOf", "Elastic", "Jitter")), clip()
    out, record = augment(x, return_record=True)
    assert torch.equal(augment.apply(x.flatten(0, 1), record.frames(6)), out.flatten(0, 1))
    refused(InvalidArgument, r"record.frames\(count\).step\(1\)", record.step, 1)
    assert record.frames(6).step(1).samples == 12
    assert record.bounds().keys() == record.frames(6).bounds().keys()
    (_, a), (_, b) = augment.views(x, 2, same=("Jitter",))
    assert torch.equal(a.frames(6).params[-1]["order"], b.frames(6).params[-1]["order"])


def test_single_pictures_have_the_first_frame():
    augment, x, key = Pipeline(STEPS, per_frame=NAMES), clip(), Key(4)
    whole = augment(x, key=key)
    for _ in range(3):  # the first call is looked at, later ones are not
        assert torch.equal(augment(x[:, 0], key=key), whole[:, 0])
    assert torch.equal(augment(x[0, 0], key=key), whole[0, 0])
    assert torch.equal(torch.stack(augment(list(x[:, 0]), key=key)), whole[:, 0])


def test_files_copies_steps_and_sizes(tmp_path):
    x, augment = clip(), Pipeline(STEPS, seed=3, per_frame=NAMES)
    out, record = augment(x, return_record=True)
    for one in (Pipeline.from_dict(augment.to_dict()), copy.deepcopy(augment), pickle.loads(pickle.dumps(augment))):
        assert torch.equal(one.apply(x, one.draw(x, key=Key(3, 0))), out)
    for kept, batch in ((record, x), (record.frames(6), x.flatten(0, 1))):
        kept.save(tmp_path / "record.pt")
        again = Record.load(tmp_path / "record.pt")
        assert torch.equal(augment.apply(batch, again), augment.apply(batch, kept))
    larger = record.at((24, 20))
    assert torch.equal(larger.frames(6).params[4]["brightness"], record.frames(6).params[3]["brightness"])
    assert torch.equal(record.step(3).frames(6).params[0]["brightness"], record.frames(6).params[3]["brightness"])


def test_what_cannot_be_drawn_for_each_frame():
    refused(InvalidArgument, "per_frame: expected transforms of this pipeline", Pipeline, STEPS, per_frame=("blur",))
    refused(InvalidArgument, "neither learn", Pipeline([P.RandomBrightness(P.Learnable(0.5))], per_frame=("Brightness",)), clip())


def test_pictures_that_share_draws_do_so_in_every_frame():
    names = dict.fromkeys(("left", "right"), "image")
    augment = Pipeline(STEPS, seed=0, targets=names, share={"colour": ["left", "right"]}, per_frame=NAMES)
    record = augment.draw({"left": clip(), "right": clip()})
    left, right = (record[name].frames(6).params for name in names)
    assert torch.equal(left[3]["brightness"], right[3]["brightness"])
    assert not torch.equal(left[1]["degrees"], right[1]["degrees"])


def test_one_graph():
    augment, x = Pipeline(STEPS, per_frame=NAMES), clip()
    compiled = torch.compile(augment, fullgraph=True, backend="eager")
    assert (compiled(x, key=Key(0)) - augment(x, key=Key(0))).abs().max() < 1e-12


def test_a_clip_on_disk_goes_through_in_chunks_with_the_same_bits(tmp_path):
    """10,000 frames under one draw, of which never more than 64 are in memory."""
    count, size = 10_000, (8, 10)
    frames = np.lib.format.open_memmap(tmp_path / "clip.npy", "w+", np.uint8, (count, 3, *size))
    frames[:] = (np.arange(count)[:, None, None, None] * 7 + np.arange(3 * size[0] * size[1]).reshape(3, *size)) % 256
    steps = [P.RandomRotation(P.Smooth(P.Uniform(-20.0, 20.0), knots=8)), P.RandomHorizontalFlip(), *STEPS[2:]]
    augment = Pipeline(steps, seed=0, per_frame=NAMES)
    record = augment.draw(torch.from_numpy(frames[0])).frames(count)
    out = np.lib.format.open_memmap(tmp_path / "out.npy", "w+", np.uint8, frames.shape)
    for start in range(0, count, 64):
        some = slice(start, start + 64)
        out[some] = augment.apply(torch.from_numpy(frames[some]), record[some]).numpy()
    whole = augment(torch.from_numpy(np.array(frames[:]))[None], key=Key(0))[0]
    assert np.array_equal(out, whole.numpy())


def test_tracks_keep_their_places_and_go_together():
    frames = [torch.tensor([[1.0, 1, 4, 4], [5, 5, 8, 9]]), torch.tensor([[5.0, 6, 8, 9]]), torch.empty(0, 4)]
    numbers = [torch.tensor([30, 10]), torch.tensor([10]), torch.empty(0, dtype=torch.int64)]
    tracks = as_tracks(frames, numbers)
    assert tracks.ids.tolist() == [10, 30]
    assert tracks.valid.tolist() == [[True, True], [True, False], [False, False]]
    assert all(torch.equal(tracks.rows[t][tracks.valid[t]], frames[t][numbers[t].argsort()]) for t in range(3))
    batch = {"image": torch.rand(1, 3, 3, 12, 10), "boxes": tracks.rows[None], "boxes_valid": tracks.valid[None]}
    out, record = Pipeline([P.RandomAffine(P.Smooth(P.Uniform(-5.0, 5.0)))], seed=0)(batch, return_record=True)
    for t in range(3):
        alone = Pipeline([]).apply({"boxes": batch["boxes"][:, t]}, record.frames(3)[t])["boxes"]
        assert torch.equal(out["boxes"][0, t][tracks.valid[t]], alone[0][tracks.valid[t]])
    assert not (out["boxes_valid"][0] & ~tracks.valid).any()
    people = as_tracks([torch.rand(2, 17, 3), torch.rand(1, 17, 3)], [torch.tensor([0, 1]), torch.tensor([1])])
    assert people.rows.shape == (2, 2, 17, 3)
    rows = [one.double().requires_grad_() for one in frames]
    assert torch.autograd.gradcheck(lambda *rows: as_tracks(rows, numbers).rows, rows)


@pytest.mark.parametrize("numbers", [[torch.tensor([1, 1])], [torch.tensor([1])], []])
def test_wrong_tracks(numbers):
    refused(InvalidArgument, "ids", as_tracks, [torch.rand(2, 4)], numbers)


@pytest.mark.slow
def test_ten_thousand_frames_in_the_memory_of_a_thousand(tmp_path):
    """Of a mapped file, 64 at a time; other chunks give the same bits."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("needs Linux, which says how much memory a process holds")
    size, augment = (3, 32, 40), Pipeline([P.RandomAffine(P.Smooth(P.Uniform(-8.0, 8.0))), *STEPS[2:]], seed=0, per_frame=NAMES)

    def sent(count, name):
        source = np.lib.format.open_memmap(tmp_path / f"{name}.npy", "w+", np.uint8, (count, *size))
        for start in range(0, count, 64):
            source[start : start + 64] = np.random.default_rng(start).integers(0, 256, source[start : start + 64].shape, np.uint8)
        source.flush()
        result = np.lib.format.open_memmap(tmp_path / f"{name}-moved.npy", "w+", np.uint8, (count, *size))
        frames = augment.draw(torch.from_numpy(source[0])).frames(count)
        for start in range(0, count, 64):
            some = slice(start, start + 64)
            result[some] = augment.apply(torch.from_numpy(source[some]), frames[some]).numpy()
        held = next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("RssAnon"))
        return source, result, frames, held

    *_, short = sent(1000, "short")
    source, result, frames, long = sent(10_000, "long")
    assert long - short < 20_000  # kB; its frames as bytes are 38 MB, as float32 154 MB
    for some in (slice(0, 300), slice(5001, 5200), slice(9900, 10_000)):
        assert np.array_equal(augment.apply(torch.from_numpy(source[some]), frames[some]).numpy(), result[some])
