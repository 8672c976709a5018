"""What ``pellucid study volumes`` trains on, and its table."""

import torch

from pellucid_bench import shapes


def test_scans_have_both_labels_and_every_arm_keeps_their_form():
    images, labels = shapes.scans(2, 0)
    others, same = shapes.scans(2, 0, other=True)
    assert set(labels.unique().tolist()) == {0, 1, 2}
    assert torch.equal(labels, same)
    assert (images - others).abs().max() > 0.5
    assert (images.flatten(1).mean(1).abs() < 1e-5).all()
    for name, (_, make) in shapes.ARMS.items():
        out = make(0)({"volume": images, "labelmap": labels})
        assert out["volume"].shape == images.shape, name
        moved = not torch.equal(out["labelmap"], labels)
        assert moved == (name in ("maps", "recipe")), name


def test_the_table_compares_seed_by_seed():
    rows = [
        {"arm": arm, "seed": s, "same": 50.0 + s + by, "other": 40.0, "cpu_seconds": 1.0}
        for arm, by in (("none", 0), ("recipe", 2))
        for s in (0, 1)
    ]
    table = shapes.as_markdown(rows).splitlines()
    assert table[2] == "| nothing | 50.5 (50.0, 51.0) |  | 40.0 (40.0, 40.0) |  | 1 |"
    assert table[3].startswith("| nnU-Net's recipe | 52.5 (52.0, 53.0) | +2.0 ± 0.0 |")
