"""Importing pellucid is quick and changes nothing."""

import json
import subprocess
import sys

# One fresh process: to start it takes longer than what it checks.
CODE = """
import json, sys, torch
torch.manual_seed(3)
state, threads, dtype = torch.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype()
before = set(sys.modules)
import pellucid, pellucid.nn
loaded = sorted(set(sys.modules) - before)
pellucid.RandomAffine(10)(torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)))
same = [torch.equal(state, torch.get_rng_state()), threads == torch.get_num_threads(), dtype == torch.get_default_dtype()]
print(json.dumps([loaded, same]))
"""


def test_import_is_light_and_has_no_side_effects():
    done = subprocess.run([sys.executable, "-W", "error", "-c", CODE], capture_output=True, text=True, check=True)
    loaded, same = json.loads(done.stdout)
    assert "pellucid.nn" in loaded
    assert not {"numba", "triton", "matplotlib", "skimage", "typer", "cv2", "scipy", "kornia"} & set(loaded)
    assert same == [True, True, True]
