"""What ``pellucid bench volumes`` measures, on a small volume."""

import pytest

from pellucid_bench import volumes


@pytest.mark.slow
def test_volumes_are_timed_beside_those_that_agree(monkeypatch):
    rows = volumes.measure_volumes(batch=2, size=12, budget=0.01)
    found = {(row["case"], row["subject"], row.get("mode")): row for row in rows}
    for subject in ("pellucid", "affine_grid + grid_sample"):
        assert all(found[volumes.AFFINE, subject, mode]["ns_per_voxel"] > 0 for mode in ("forward", "backward"))
    assert found[volumes.AFFINE, "scipy", "forward"]["status"] == "ok"
    assert volumes.volumes_table(rows).count("\n") == len({key[:2] for key in found}) + 1
    monkeypatch.setattr(volumes, "_by_grid", lambda volume, matrix: volume)
    with pytest.raises(RuntimeError, match="another volume"):
        volumes.measure_volumes(batch=1, size=12, budget=0.01)


def test_scipy_reads_the_same_places():
    import torch

    from pellucid.functional import warp3

    volume, matrix = torch.rand(1, 1, 9, 9, 9, dtype=torch.float64), volumes.turned(9).double()
    (found,) = volumes._scipy(volume, matrix)()
    inside = torch.from_numpy(found)[2:-2, 2:-2, 2:-2]
    torch.testing.assert_close(inside, warp3(volume, matrix)[0, 0, 2:-2, 2:-2, 2:-2])
