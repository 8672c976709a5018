"""The study of hypergradients: its differences on a known slope, and its tables from rows."""

import torch

from pellucid_bench.learned.gradients import as_markdown, differences


def test_differences_are_those_of_the_value_and_leave_the_numbers_alone():
    numbers = [torch.tensor(2.0, dtype=torch.float64, requires_grad=True), torch.tensor(-1.0, dtype=torch.float64)]
    found = differences(numbers, lambda: numbers[0].detach() ** 2 * numbers[1], step=0.5)
    assert torch.allclose(found, torch.tensor([-4.0, 4.0], dtype=torch.float64), rtol=1e-12)
    assert [float(one.detach()) for one in numbers] == [2.0, -1.0]


def test_tables_say_what_the_rows_do():
    estimate = {"number": "angle", "estimator": "boundary", "mean": 1.0, "spread": 3.0, "keys": 9, "oracle": 2.0}
    horizon = {
        "steps": 5,
        "slopes": [[1.0, 0.0], [0.0, 1.0]],
        "near": [2.0, 0.0],
        "wide": [[1.0, 1.0]],
        "far": [[1.0, 0.0], [-1.0, 0.0]],
    }
    rows = [{"arm": "estimators", "seed": 0, "found": [estimate]}, {"arm": "horizons", "seed": 0, "found": [horizon]}]
    assert "read, %" not in as_markdown(rows)
    rows.append({"arm": "labels", "seed": 0, "found": [{"operations": 2, "accuracy": 0.75}]})
    text = as_markdown(rows)
    assert "| 2 | 75.0 (75.0) |" in text
    assert "| angle | `boundary` | 0.50 (0.50) | 1.5 (1.5) |" in text
    assert "| 5 | 1.0000 (1.0000) | +0.71 (+0.71) | +1.00 (+1.00) | +0.00 (+0.00) | -1.00 (-1.00) |" in text
