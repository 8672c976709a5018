"""Loading: the same batches for any number of workers, another draw in each epoch, and none twice after a stop."""

import contextlib
import queue
import sys
import threading
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader
from torch.utils.data._utils.pin_memory import pin_memory

import pellucid
from pellucid import Key, Pipeline
from pellucid.data import Indexed, Numbered, Order, Prefetcher, collate, decode, index_of
from pellucid.errors import InvalidArgument, InvalidType
from tests.refusals import refused

STEPS = [pellucid.RandomResizedCrop(16), pellucid.RandomHorizontalFlip(), pellucid.ColorJitter(0.3, 0.3)]


class Files:
    def __init__(self, folder):
        self.paths = sorted(folder.rglob("*.*g"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        return self.paths[i], i


def loader(folder, workers=0, *, order=None, how=None, batch=3, **options):
    data = Files(folder)
    order = Order(data, seed=4) if order is None else order
    context = "fork" if workers else None
    how = collate(Pipeline(STEPS, seed=1)) if how is None else how
    return DataLoader(
        Indexed(data), batch, sampler=order, collate_fn=how, num_workers=workers, multiprocessing_context=context, **options
    )


def prefetcher(folder, workers=0, *, depth=2, **options):
    how = collate(Pipeline(STEPS, seed=1))
    return Prefetcher(loader(folder, workers, how=how.read, **options), how, depth=depth)


def seen(batches):
    images, labels = zip(*batches, strict=True)
    return torch.cat(images), torch.cat(labels)


def agree(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.filterwarnings("ignore:This DataLoader will create 8 worker processes")
@pytest.mark.parametrize("workers", [2, 8])
def test_workers_change_nothing(folder, workers):
    alone, others = loader(folder), loader(folder, workers)
    for _ in range(2):
        assert agree(seen(alone), seen(others))


def test_a_sample_is_the_draw_of_its_index(folder):
    augment, data = Pipeline(STEPS, seed=1), Files(folder)
    images, labels = seen(loader(folder, how=collate(augment, draft=False)))
    for image, label in zip(images, labels.tolist(), strict=True):
        assert torch.equal(image, augment(decode(data[label][0]), key=Key(1, 0, torch.tensor([label]))))


def test_epochs_differ_in_order_and_draws(folder):
    batches = loader(folder)
    (first, one), (second, two) = seen(batches), seen(batches)
    assert not torch.equal(one, two)
    assert sorted(one.tolist()) == sorted(two.tolist()) == list(range(8))
    assert not any(torch.equal(first[one == i], second[two == i]) for i in range(8))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_resumes_within_an_epoch(folder, workers):
    batches = loader(folder)
    whole = [*batches, *batches]
    first = prefetcher(folder, workers)
    handed, states = [], []
    for batch in [first, first]:
        for part in batch:
            handed.append(part)
            states.append(first.state_dict())
    assert agree(seen(handed), seen(whole))
    for stop in (1, 2, 4):  # within the first epoch, before its last batch, within the second
        later = prefetcher(folder, workers)
        later.load_state_dict(states[stop])
        rest = [*later, *(later if stop < 3 else [])]
        assert agree(seen(rest), seen(whole[stop + 1 :]))


def test_a_state_at_the_end_of_an_epoch_is_the_next_one(folder):
    batches = prefetcher(folder)
    assert len(list(batches)) == len(batches) == 3
    assert batches.state_dict() == {"epoch": 1, "done": 0}


def test_ranks_share_an_epoch():
    whole, shares = list(Order(10, seed=2)), [list(Order(10, seed=2, rank=r, ranks=3)) for r in range(3)]
    assert sorted(part for share in shares for part in share) == sorted(whole)
    assert [len(share) for share in shares] == [4, 3, 3]
    assert list(Order(4, shuffle=False)) == [(0, i) for i in range(4)]


def prefetching():
    return [thread for thread in threading.enumerate() if thread.name == "pellucid-prefetch"]


def ended(seconds=20.0):
    """Whether every thread of a loop that was left ends by itself."""
    for thread in prefetching():
        thread.join(seconds)
    return not prefetching()


@pytest.mark.parametrize("depth", [1, 3])
def test_the_thread_keeps_order_and_stops(folder, depth):
    batches = prefetcher(folder, batch=1, depth=depth)
    for place, _ in enumerate(batches):
        if place == 2:
            break
    assert ended()


class Stalling:
    """A stream that gives some batches and then nothing until it is let go."""

    def __init__(self, *batches):
        self.batches, self.go, self.waits, self.ends = batches, threading.Event(), threading.Event(), 0

    def __iter__(self):
        try:
            yield from self.batches
            self.waits.set()
            self.go.wait(60)
            yield "late"
        finally:
            self.ends += 1


@pytest.mark.parametrize("depth", [1, 2])
def test_leaving_a_loop_does_not_wait_for_a_stream_that_stalls(depth):
    stream = Stalling(1, 2)
    for batch in (batches := Prefetcher(stream, depth=depth)):
        if batch == 2:
            assert stream.waits.wait(60)
            break
    assert len(prefetching()) == 1, "the loop was left while the stream waits"
    assert not stream.go.is_set()
    stream.go.set()
    assert ended()
    assert stream.ends == 1, "the stream was closed"
    assert next(iter(batches)) == 1
    assert ended()


def test_an_interrupt_leaves_a_loop_whose_first_batch_does_not_come(monkeypatch):
    stream = Stalling()

    def interrupted(*_):
        assert stream.waits.wait(60)
        raise KeyboardInterrupt

    monkeypatch.setattr(queue.Queue, "get", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(iter(Prefetcher(stream)))
    stream.go.set()
    assert ended()


def test_the_next_loop_begins_when_the_thread_of_the_last_has_ended():
    stream = Stalling(1)
    batches = Prefetcher(stream)
    for _ in batches:
        stream.waits.wait(60)
        break
    later = threading.Thread(target=lambda: found.extend(batches))
    found, ends = [], stream.ends
    later.start()
    later.join(0.05)
    assert (ends, stream.ends, found) == (0, 0, [])
    stream.go.set()
    later.join(60)
    assert found == [1, "late"]
    assert stream.ends == 2
    assert ended()


def test_an_error_comes_where_its_batch_would(folder, tmp_path):
    (tmp_path / "a.png").write_bytes((folder / "dog" / "03.png").read_bytes())
    (tmp_path / "b.png").write_bytes(b"broken")
    batches = iter(prefetcher(tmp_path, batch=1, order=Order(2, shuffle=False)))
    next(batches)
    refused(pellucid.InvalidArgument, r"b\.png", next, batches)


def test_batches_pass_without_a_pipeline():
    assert list(Prefetcher([1, 2, 3], depth=1)) == [1, 2, 3]
    refused(pellucid.InvalidArgument, "depth", Prefetcher, [], depth=0)


def stream(folder):
    paths = sorted(folder.rglob("*.*g"))
    return [{"__key__": path.stem, "jpg": path.read_bytes(), "cls": int(path.parent.name == "dog")} for path in paths]


@pytest.mark.parametrize("workers", [0, 2])
def test_streams_are_numbered_by_their_keys(folder, workers):
    samples = stream(folder)
    augment = Pipeline(STEPS, seed=1)
    numbered = Numbered(samples)
    batches = DataLoader(
        numbered, 2, collate_fn=collate(augment, names={"jpg": "image", "cls": "label"}, draft=False), num_workers=workers
    )
    drawn = []
    for numbered.epoch in range(2):
        images = {key: image for batch in batches for key, image in zip(batch["__key__"], batch["image"], strict=True)}
        assert len(images) == 8
        for sample in samples:
            key = Key(1, numbered.epoch, torch.tensor([index_of(sample["__key__"])]))
            assert torch.equal(images[sample["__key__"]], augment(decode(sample["jpg"]), key=key))
        drawn.append(images)
    assert not any(torch.equal(drawn[0][key], drawn[1][key]) for key in drawn[0])


def test_dicts_of_targets_and_other_entries():
    samples = [
        {
            "image": torch.rand(3, 20 + n, 30),
            "boxes": [[1, 2, 9, 12]] * n,
            "labels": list(range(n)),
            "file": f"{n}.jpg",
            "id": n,
            "w": 0.5,
        }
        for n in range(3)
    ]
    batch = collate(Pipeline([pellucid.Letterbox(16)]))(samples)
    assert batch["image"].shape == (3, 3, 16, 16)
    assert batch["boxes_valid"].sum(1).tolist() == [0, 1, 2]
    assert batch["labels"].tolist() == [[-1, -1], [0, -1], [0, 1]]
    assert batch["file"] == ["0.jpg", "1.jpg", "2.jpg"]
    assert torch.equal(batch["id"], torch.arange(3))
    assert batch["w"].dtype == torch.float32


@pytest.mark.parametrize("counts", [(2, 2), (2, 1), (0, 2), (1, 1)])
def test_labels_of_boxes_have_the_form_of_their_boxes(counts):
    """Whether or not pictures have equally many of them."""
    row = [2.0, 2, 9, 12]
    samples = [{"image": torch.rand(3, 16, 20), "boxes": [row] * n, "labels": [7] * n, "names": ["a"] * n} for n in counts]
    keep = [pellucid.Letterbox(16)]
    batch = collate(Pipeline(keep))(samples)
    assert batch["labels"].shape == batch["boxes_valid"].shape
    assert ((batch["labels"] == 7) == batch["boxes_valid"]).all()
    assert batch["labels"].dtype == torch.int64
    assert isinstance(batch["names"], list)
    for options in ({"pad_targets": False}, {"drop_invalid": True}):
        batch = collate(Pipeline(keep, **options))(samples)
        assert [labels.tolist() for labels in batch["labels"]] == [[7] * n for n in counts]
        assert isinstance(batch["labels"], list)


def test_labels_go_with_boxes_that_are_left_out():
    boxes = torch.tensor([[0.0, 0, 3, 3], [5, 5, 10, 10]])  # the first of which a crop cuts off
    samples = [{"image": torch.rand(3, 16, 16), "boxes": boxes, "labels": torch.tensor([1, 2]), "id": 3}] * 2
    crop = collate(Pipeline([pellucid.CenterCrop(8)], drop_invalid=True))
    assert [labels.tolist() for labels in crop(samples)["labels"]] == [[2], [2]]
    _, targets, ids = crop([(sample["image"], {"boxes": boxes, "labels": sample["labels"], "path": "x"}, 3) for sample in samples])
    assert [(one["labels"].tolist(), one["path"]) for one in targets] == [([2], "x")] * 2
    assert ids.tolist() == [3, 3]


def test_targets_beside_a_picture_move_with_it():
    flip = collate(Pipeline([pellucid.RandomHorizontalFlip(p=1.0)], seed=0))
    samples = [(torch.rand(3, 8, 20 + n), {"boxes": [[1, 2, 4, 6]] * n, "file": f"{n}.jpg"}) for n in range(3)]
    pictures, targets = flip(samples)
    for n, (picture, target) in enumerate(zip(pictures, targets, strict=True)):
        assert torch.equal(picture, samples[n][0].flip(-1))
        assert target["boxes"].tolist() == [[16 + n, 2, 19 + n, 6]] * n
        assert target["file"] == f"{n}.jpg"


def test_drafts_are_decoded_only_where_crops_are_larger_than_their_result(folder, tmp_path, monkeypatch):
    from tests.data.conftest import picture

    for n in range(6):
        picture(300, 400, 0).save(tmp_path / f"{n}.jpg", quality=95)  # no detail that filters differ on
    asked = []
    monkeypatch.setattr(
        sys.modules["pellucid.data.collate"],
        "decode",
        lambda source, **o: asked.append(o["least"] and o["least"]((300, 400))) or decode(source, **o),
    )
    crop = pellucid.RandomResizedCrop(32, scale=(0.02, 0.5))
    for steps in ([crop, pellucid.RandomHorizontalFlip()], [pellucid.RandomRotation(5), crop]):
        augment = Pipeline(steps, seed=0)
        drafted, whole = (seen(loader(tmp_path, how=collate(augment, draft=on)))[0].float() for on in (True, False))
        close = (drafted - whole).abs().mean((1, 2, 3))
        if steps[0] is crop:
            draws = augment.draw([torch.zeros(1, 300, 400)] * 6, key=Key(0, 0)).params[0]
            sides = (
                draws["scale"] * 300 * 400 / torch.maximum(draws["ratio"], 1 / draws["ratio"])
            ).sqrt()  # the shorter one, at least
            assert sum(least is not None for least in asked[:6]) >= int((sides >= 64).sum()) > 0
            assert (close > 0).any()
            assert close.max() < 2.0  # the same crop: another one differs by tens of levels
        else:
            assert not any(asked)
            assert not close.any()
        asked.clear()


def test_mistakes():
    how = collate(Pipeline([pellucid.CenterCrop(8)]))
    for samples, words in (
        ([3], "image: expected a tensor, an array, a PIL image, a path or a file's content, got int"),
        ([{"image": torch.zeros(3, 9, 9)}, {"images": 3}], "sample 1: expected the keys of sample 0, ['image'], got ['images']"),
        ([Path("gone.jpg")], None),
    ):
        with pytest.raises((pellucid.InvalidArgument, pellucid.InvalidType, FileNotFoundError)) as caught:
            how(samples)
        assert words is None or str(caught.value).startswith(words)
    with pytest.raises(pellucid.InvalidType, match="as Order gives them"):
        Indexed([1])[0]
    refused(pellucid.InvalidArgument, "rank", Order, 3, rank=3, ranks=3)


@pytest.mark.parametrize("first", [0, 1])
def test_rows_of_numbers_keep_their_columns(first):
    """Keypoints with visibility and turned boxes, of samples that may have none."""
    order = [first, 1 - first]
    points, boxes = [[], [[4.0, 5.0, 2.0], [1.0, 2.0, 0.0]]], [[], [[8.0, 8.0, 4.0, 2.0, 0.5]]]
    samples = [{"image": torch.rand(3, 16, 16), "keypoints": points[n], "boxes": boxes[n]} for n in order]
    batch = collate(Pipeline([pellucid.Resize(16)], box_format="cxcywhr"))(samples)
    full = order.index(1)
    torch.testing.assert_close(batch["keypoints"][full], torch.tensor(points[1]))
    torch.testing.assert_close(batch["boxes"][full], torch.tensor(boxes[1]))
    assert batch["keypoints_valid"].sum(1).tolist() == [n == full for n in range(2)]
    assert batch["boxes_valid"].sum(1).tolist() == [n == full for n in range(2)]


def test_rows_of_the_wrong_width_are_no_other_number_of_boxes():
    samples = [{"image": torch.rand(3, 16, 16), "boxes": [[1.0, 2.0, 3.0, 4.0, 5.0]] * 4}]
    refused(InvalidArgument, "4 numbers per box", collate(Pipeline([pellucid.Resize(16)])), samples)


def test_batches_from_a_side_stream_are_kept_until_they_are_read(monkeypatch):
    """What the side stream made may be made anew there once it is freed: the stream that reads it must be told, in any nest."""
    told = []
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: type("Side", (), {"record_event": lambda self: "done"})())
    monkeypatch.setattr(torch.cuda, "stream", lambda side: contextlib.nullcontext())
    waits = type("Main", (), {"wait_event": lambda self, event: told.append(event)})()
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: waits)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, at: told.append((tensor.item(), at is waits)))
    monkeypatch.setattr(Prefetcher, "_moved", lambda self, value: value)
    batches = [{"image": torch.tensor(1), "boxes": [torch.tensor(2)]}, torch.tensor(3)]
    assert len(list(Prefetcher(batches, device="cuda"))) == 2
    assert told == ["done", (1, True), (2, True), "done", (3, True)]


@pytest.mark.parametrize(
    ("samples", "sentence"),
    [
        ([], "samples: expected at least one, got an empty list"),
        ([(torch.rand(3, 20, 20), 1), torch.rand(3, 20, 20)], "sample 1: expected a tuple of 2, like sample 0, got a picture"),
        (
            [(torch.rand(3, 20, 20), 1), (torch.rand(3, 20, 20),)],
            "sample 1: expected a tuple of 2, like sample 0, got a tuple of 1",
        ),
        ([{"image": torch.rand(3, 20, 20)}, (torch.rand(3, 20, 20), 1)], "sample 1: expected a dict, like sample 0"),
        ((torch.rand(3, 20, 20), 1), "batch_size=None"),
    ],
)
def test_what_is_no_list_of_like_samples_is_named(samples, sentence):
    refused((pellucid.InvalidArgument, pellucid.InvalidType), sentence, collate(Pipeline(STEPS, seed=1)), samples)


def test_streams_without_names_and_orders_of_nothing_are_named():
    for samples in ([{"image": 1}], [(1, 2)]):
        refused(InvalidArgument, "Numbered: expected samples that are dicts with a key '__key__'", list, Numbered(samples))
    refused(InvalidArgument, "samples: expected how many there are", Order, -1)
    order = Order(4)
    order.done = 9
    assert (len(order), list(order)) == (0, [])


class Pictures:
    def __len__(self):
        return 8

    def __getitem__(self, at):
        return {"image": torch.full((3, 20 + at, 24), at / 8), "label": at}


def test_all_of_a_batch_is_pinned_and_all_of_it_lies_on_the_device(monkeypatch):
    pinned = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor, *_: pinned.append(tensor) or tensor.clone())
    augment, data = collate(Pipeline([pellucid.CenterCrop(16)], seed=3)), Pictures()
    read = [pin_memory(batch) for batch in DataLoader(Indexed(data), 4, sampler=Order(data), collate_fn=augment.read)]
    assert len(pinned) == len(data)
    for batch, plain in zip(Prefetcher(read, augment), map(augment, read), strict=True):
        assert torch.equal(batch["image"], plain["image"])
    for batch in Prefetcher(read, augment, device="meta"):
        assert {name: each.device.type for name, each in batch.items()} == {"image": "meta", "label": "meta"}


def test_batches_that_are_named_tuples_are_moved():
    batch = namedtuple("Batch", "image label")(torch.rand(2, 3, 4, 4), torch.arange(2))
    (moved,) = Prefetcher([batch], device="meta")
    assert type(moved) is type(batch)
    assert moved.image.device.type == moved.label.device.type == "meta"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true")
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_started_anew_give_the_same_with_pinned_memory(method):
    """Without an accelerator torch pins nothing; what is shown then is that batches pass that way unchanged."""
    data, augment = Pictures(), collate(Pipeline(STEPS, seed=3))

    def batches(read, **options):
        return DataLoader(Indexed(data), 4, sampler=Order(data, seed=1), collate_fn=read, **options)

    options = {"num_workers": 1, "multiprocessing_context": method, "pin_memory": True}
    alone = list(batches(augment))
    for made in (list(batches(augment, **options)), list(Prefetcher(batches(augment.read, **options), augment))):
        assert all(torch.equal(one["image"], other["image"]) for one, other in zip(alone, made, strict=True))
        assert all(torch.equal(torch.as_tensor(a["label"]), torch.as_tensor(b["label"])) for a, b in zip(alone, made, strict=True))
        assert all(batch["image"].is_pinned() for batch in made) or not torch.cuda.is_available()


def test_samples_in_the_place_of_the_pipeline_are_refused():
    """``collate_fn=collate`` would hand out the function that was made of the samples, as a batch."""
    refused(InvalidType, r"collate_fn=collate\(pipeline\)", collate, [{"image": torch.rand(3, 8, 8)}])
