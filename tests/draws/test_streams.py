"""What no key names: streams of their own, that repeat nothing and are repeatable."""

import copy
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
import torch

import pellucid as P
from pellucid.engine.plan import make_plan
from pellucid.errors import InvalidType
from pellucid.policy import RandomChoice, rand_augment
from pellucid.random import stream
from pellucid.types import ImageSpec
from tests.refusals import refused

X = torch.zeros(4096, 1, 2, 2)


def degrees(pipeline, x=X, at=0, **options):
    return pipeline.draw(x, **options).params[at]["degrees"]


def correlation(one, other):
    return torch.corrcoef(torch.stack((one, other)))[0, 1].abs().item()


def independent(one, other):
    return correlation(one, other) < 5 / len(one) ** 0.5


def test_every_draw_has_a_slot_of_its_own():
    transforms = (
        P.RandomAffine(10, translate=(0.1, 0.1), shear=5),
        P.ColorJitter(0.1, 0.1, saturation=0.1, hue=0.1),
        P.RandomGaussianNoise(),
        *[P.RandomRotation(5)] * 9,
    )
    plan = make_plan(transforms, ImageSpec(3, 8, 8))
    assert len(set(plan.slots)) == len(plan.slots)
    taken = [range(draw.word, draw.word + draw.distribution.words) for draw in plan.draws]
    assert all(one.stop <= other.start for one, other in pairwise(taken))


def test_slots_that_meet_are_resolved(monkeypatch):
    monkeypatch.setattr(stream, "_slot", lambda *names: names[-1] % 3)
    assert stream.slot_of("a", 0) == 0
    assert stream.slot_of("b", 0, taken=[0, 1]) == 2


def test_slots_are_the_same_in_every_process():
    code = (
        "from pellucid import RandomAffine; from pellucid.engine.plan import make_plan; from pellucid.types import ImageSpec;"
        "print(make_plan((RandomAffine(10),), ImageSpec(3, 8, 8)).slots)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "3"}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment).stdout
    assert out.strip() == str(make_plan((P.RandomAffine(10),), ImageSpec(3, 8, 8)).slots)


def test_a_draw_depends_on_its_own_position_class_and_name_only():
    key = P.Key(1, 1)
    rotation = degrees(P.Pipeline([P.RandomRotation(10)]), key=key)
    # Neither a gate that is not drawn nor other options move it.
    assert torch.equal(rotation, degrees(P.Pipeline([P.RandomRotation(10, p=0.5)]), key=key))
    affine = degrees(P.Pipeline([P.RandomAffine(10)]), key=key)
    assert torch.equal(affine, degrees(P.Pipeline([P.RandomAffine(10, p=0.3, translate=(0.1, 0.2), shear=3)]), key=key))
    assert torch.equal(affine * 2, degrees(P.Pipeline([P.RandomAffine(20)]), key=key))
    # Another class, another name and another position are other draws.
    assert independent(rotation, affine)
    drawn = P.Pipeline([P.RandomAffine(10, translate=(0.1, 0.1), shear=3), P.RandomAffine(10)]).draw(X, key=key).params
    values = [*(v for v in drawn[0].values() if len(v.unique()) > 1), drawn[1]["degrees"]]
    assert len(values) == 5
    assert all(independent(a, b) for i, a in enumerate(values) for b in values[:i])


def test_pipelines_of_one_seed_are_independent_unless_they_are_equal():
    flip = [P.Pipeline([t], seed=0).draw(X).params[0]["gate"] for t in (P.RandomHorizontalFlip(), P.RandomVerticalFlip())]
    assert independent(*flip)
    assert torch.equal(degrees(P.Pipeline([P.RandomRotation(5)], seed=3)), degrees(P.Pipeline([P.RandomRotation(5)], seed=3)))


def test_pipelines_without_a_seed_are_independent_and_repeatable():
    def both():
        return [degrees(P.Pipeline([P.RandomRotation(5)])) for _ in range(2)]

    one, other = both()
    assert independent(one, other)
    code = (
        "import torch; from pellucid import Pipeline, RandomRotation; torch.manual_seed(0); x = torch.zeros(3, 1, 2, 2);"
        "print([Pipeline([RandomRotation(5)]).draw(x).params[0]['degrees'].tolist() for _ in range(2)])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found == str([one[:3].tolist(), other[:3].tolist()]) + "\n"
    torch.manual_seed(1)
    assert all(independent(a, b) for a in both() for b in (one, other))


def test_the_global_generator_is_not_advanced():
    before = torch.get_rng_state()
    P.RandomRotation(5)(P.Pipeline([P.RandomRotation(5)])(rand_augment()(torch.rand(2, 3, 4, 4, generator=torch.Generator()))))
    assert torch.equal(torch.get_rng_state(), before)


def test_transforms_called_alone_share_no_draw():
    image = torch.tensor([[[[0.0, 1.0], [2.0, 3.0]]]]).expand(256, 1, 2, 2)
    out = P.RandomVerticalFlip()(P.RandomHorizontalFlip()(image))
    assert len(out.flatten(1).unique(dim=0)) == 4
    one, other = P.RandomRotation(5)(X, return_record=True)[1], P.RandomRotation(5)(X, return_record=True)[1]
    assert independent(one.params[0]["degrees"], other.params[0]["degrees"])


def test_a_pipeline_without_a_seed_is_saved_without_one(tmp_path):
    augment = P.Pipeline([P.RandomRotation(5)])
    augment.save(tmp_path / "p.toml")
    assert "seed" not in augment.to_dict()
    assert independent(degrees(P.Pipeline.load(tmp_path / "p.toml")), degrees(augment))
    resumed = P.Pipeline([P.RandomRotation(5)])
    resumed.load_state_dict(augment.state_dict())
    assert torch.equal(degrees(resumed), degrees(augment))
    assert torch.equal(degrees(copy.deepcopy(augment)), degrees(augment))


def test_a_state_that_is_kept_in_memory_does_not_count_along():
    augment = P.Pipeline([P.RandomRotation(5)], seed=0)
    state, first = augment.state_dict(), degrees(augment)
    degrees(augment)
    augment.load_state_dict(state)
    assert torch.equal(degrees(augment), first)


def test_the_stages_of_rand_augment_are_independent_between_seeds():
    from tests.policy.test_choice import images

    x = images(2048)
    chosen = {}
    for seed in (0, 1):
        drawn = rand_augment(seed=seed).draw(x).params[0]
        chosen |= {(seed, turn): drawn[f"choice_{turn}"].argmax(1).double() for turn in range(2)}
    names = list(chosen)
    assert all(independent(chosen[a], chosen[b]) for i, a in enumerate(names) for b in names[:i])


def test_ranks_draw_differently_what_a_batch_shares(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    drawn = {}
    for rank in range(4):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        shared = degrees(P.Pipeline([P.RandomRotation(5)], same_on_batch=True, seed=1), X[:5])
        assert len(shared.unique()) == 1
        drawn[rank] = shared[0].item()
    assert len(set(drawn.values())) == 4


@pytest.mark.parametrize("build", [lambda: P.Pipeline([P.RandomRotation(5)], seed=1), lambda: P.RandomRotation(5)])
def test_no_draw_repeats_between_threads(build):
    augment, x = build(), torch.zeros(4, 1, 2, 2)

    def draw(_):
        return augment(x, return_record=True)[1].params[0]["degrees"].tolist()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            drawn = [value for values in pool.map(draw, range(800)) for value in values]
    finally:
        sys.setswitchinterval(interval)
    assert len(set(drawn)) == 3200


def test_inference_mode_poisons_nothing():
    x = torch.rand(2, 1, 8, 8)
    turn = P.RandomRotation(7.125)
    with torch.inference_mode():
        turn(x)
        pipeline = P.Pipeline([P.RandomRotation(P.Learnable(3.0))])
        choice = RandomChoice([[P.RandomRotation(3.0)], [P.RandomHorizontalFlip()]], learn=True)
        pipeline(x), choice(x)
    leaf = x.clone().requires_grad_()
    for augment in (P.RandomRotation(7.125), pipeline, choice):
        augment(leaf).square().sum().backward()
    assert all(parameter.grad is not None for module in (pipeline, choice) for parameter in module.parameters())
    with torch.inference_mode():
        turn(x)


@pytest.mark.parametrize("build", [lambda: P.Pipeline([P.RandomRotation(5)]), lambda: rand_augment(), lambda: P.RandomRotation(5)])
def test_what_a_call_does_not_take_is_explained(build):
    x = torch.rand(2, 3, 4, 4)
    refused(InvalidType, r"params: expected no such argument.*apply\(other, record\)", build(), x, params={})
    refused(InvalidType, r"key: expected a Key", build(), x, key=3)
    refused(InvalidType, r"mask: expected the targets as one batch.*pipeline\(image=\.\.\., mask=\.\.\.\)", build(), x, mask=x)
    assert set(build()(image=x, mask=x)) == {"image", "mask"}
    refused(InvalidType, "batch: expected", build())


def test_a_stream_that_cannot_advance_says_what_to_do():
    turn, x = P.Pipeline([P.RandomRotation(5)], seed=0), torch.rand(2, 3, 4, 4)
    for call in (lambda: torch.func.jvp(turn, (x,), (x,)), lambda: torch.func.grad(lambda y: turn(y).sum())(x)):
        refused(RuntimeError, r"Draw outside .* or pass key=", call)
    torch.func.jvp(lambda y: turn(y, key=P.Key(3)), (x,), (x,))
    record = turn.draw(x)
    torch.func.jvp(lambda y: turn.apply(y, record), (x,), (x,))


def test_a_compiled_transform_does_not_repeat_its_draw():
    torch._dynamo.reset()
    turn, x = P.RandomRotation(5), torch.zeros(2, 1, 2, 2)
    fast = torch.compile(lambda x: turn(x, return_record=True)[1].params[0]["degrees"], backend="eager")
    assert len({*fast(x).tolist(), *fast(x).tolist()}) == 4
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(lambda x: turn(x), backend="eager", fullgraph=True)(x)
    keyed = torch.compile(lambda x: turn(x, key=P.Key(3, 2)), backend="eager", fullgraph=True)
    assert torch.equal(keyed(x), turn(x, key=P.Key(3, 2)))
