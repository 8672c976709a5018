"""Ray Data: what a block gives does not depend on how rows are divided."""

import numpy as np
import pytest
import torch

import pellucid
from pellucid import Key, Pipeline
from pellucid.data import decode, index_of
from pellucid.data.ray import Blocks, augment

STEPS = [pellucid.RandomResizedCrop(16), pellucid.RandomHorizontalFlip()]


def block(folder):
    paths = sorted(folder.rglob("*.jpg"))
    pictures = np.empty(len(paths), dtype=object)
    pictures[:] = [decode(path).permute(1, 2, 0).numpy() for path in paths]
    return {"image": pictures, "path": np.array([path.name for path in paths]), "id": np.arange(len(paths))}


def test_a_row_is_the_draw_of_its_name(folder):
    rows, run = block(folder), Blocks(Pipeline(STEPS).to_dict(), seed=3, epoch=2)
    made = run(rows)
    assert made["image"].shape == (len(rows["id"]), 16, 16, 3)
    assert np.array_equal(made["id"], rows["id"])
    halves = [run({name: column[at] for name, column in rows.items()}) for at in (slice(0, 3), slice(3, None))]
    assert np.array_equal(np.concatenate([half["image"] for half in halves]), made["image"])
    key = Key(3, 2, torch.tensor([index_of(rows["path"][1])]))
    alone = Pipeline(STEPS)(torch.from_numpy(rows["image"][1]).permute(2, 0, 1), key=key)
    assert np.array_equal(made["image"][1], alone.permute(1, 2, 0).numpy())


def test_sizes_of_their_own_stay(folder):
    rows = block(folder)
    made = Blocks(Pipeline([pellucid.RandomRotation(5)]).to_dict())(rows)
    assert [picture.shape for picture in made["image"]] == [picture.shape for picture in rows["image"]]
    with pytest.raises(pellucid.InvalidArgument, match="a column 'path'"):
        Blocks(Pipeline(STEPS).to_dict())({"image": rows["image"]})


@pytest.mark.filterwarnings("ignore")
def test_on_a_local_cluster(folder):
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'pellucid[ray]'")
    pytest.importorskip("ray.data", reason="Ray Data is not installed: pip install 'pellucid[ray]'")
    rows = block(folder)
    wanted = dict(zip(rows["path"], Blocks(Pipeline(STEPS).to_dict())(rows)["image"], strict=True))
    ray.init(num_cpus=4, include_dashboard=False, _node_ip_address="127.0.0.1")  # two keep a pipeline, tasks need the others
    try:
        items = [{name: column[i] for name, column in rows.items()} for i in range(len(rows["id"]))]
        for workers, parts in ((1, 1), (2, 4)):
            made = augment(ray.data.from_items(items).repartition(parts), Pipeline(STEPS), workers=workers).take_all()
            assert all(np.array_equal(row["image"], wanted[row["path"]]) for row in made)
            assert len(made) == len(items)
    finally:
        ray.shutdown()
