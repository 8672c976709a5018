"""Declared gradients are the measured ones: slow-mode gradcheck to the image and to every drawn value."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from tests.cases import CASES, IDS, images, pipeline, smooth_record

every = pytest.mark.parametrize("case", CASES, ids=IDS)
# A surrogate is not the derivative of what it stands for: what it is, is held in tests/estimators/test_discrete.py.
SLOPED = [i for i, case in enumerate(CASES) if case.transform.gradients["image"] in ("exact", "almost_everywhere")]
sloped = pytest.mark.parametrize("case", [CASES[i] for i in SLOPED], ids=[IDS[i] for i in SLOPED])


@pytest.fixture(autouse=True)
def _shapes_checked(request):
    """A gradcheck repeats one call some hundred times: shapes are held to in the tests that make the call once."""
    if not any(name.endswith("gradcheck") for name in request.function.__code__.co_names):
        request.getfixturevalue("shapes_checked")


def small(case):
    """Slow-mode gradcheck evaluates once per pixel: small pictures keep it honest and quick."""
    if case.size is not None:
        return images(case, batch=2)
    return images(case, batch=2)[..., :5, : 5 if case.square else 6].clone()


@sloped
def test_image_gradient(case):
    """Of one picture, unless several meet; the usual draw below takes two of each."""
    x = small(case)[: case.group].clone().requires_grad_()
    augment = pipeline(case)
    record = smooth_record(case, x.detach())
    assert gradcheck(lambda image: augment.apply(image, record), (x,), check_forward_ad=True, check_batched_grad=True)


@sloped
def test_image_gradient_with_the_usual_draw(case):
    x = small(case).requires_grad_()
    augment = pipeline(case)
    record = augment.draw(x)
    assert gradcheck(lambda image: augment.apply(image, record), (x,))


@every
def test_every_drawn_value_is_declared_and_has_that_gradient(case):
    x = small(case)
    augment = pipeline(case)
    record = smooth_record(case, x)
    declared = {name: kind for name, kind in case.transform.gradients.items() if name != "image"}
    for name, value in record.params[0].items():
        assert name in declared, f"{name} is drawn but its gradient is not declared"
        if declared[name] == "none" and not value.is_floating_point():
            continue
        leaf = value.detach().clone().requires_grad_()

        def through(v, name=name):
            return augment.apply(x, record.with_param(0, name, v))

        if declared[name] in ("exact", "almost_everywhere"):
            assert gradcheck(through, (leaf,), check_forward_ad=True), name
        out = through(leaf)
        if declared[name] == "none" and not out.requires_grad:
            continue
        (gradient,) = torch.autograd.grad(out.pow(2).sum(), leaf, materialize_grads=True)
        if declared[name] == "none":
            assert not bool(gradient.any()), f"{name}: a gradient nobody declared"
        else:
            assert bool((gradient != 0).all()), f"{name}: a declared gradient is all zero"


@every
def test_an_image_has_a_gradient_unless_none_is_declared(case):
    x = small(case).requires_grad_()
    augment = pipeline(case)
    out = augment.apply(x, smooth_record(case, x.detach()))
    (gradient,) = torch.autograd.grad(out.pow(2).sum(), x, materialize_grads=True)
    assert bool(gradient.any()) == (case.transform.gradients["image"] != "none")


@sloped
def test_second_order(case):
    x = small(case)[:1].requires_grad_()
    augment = pipeline(case)
    record = smooth_record(case, x.detach())
    continuous = [n for n, k in case.transform.gradients.items() if n in record.params[0] and k != "none" and "surrogate" not in k]
    values = [record.params[0][n].detach().clone().requires_grad_() for n in continuous]

    def through(image, *given):
        replayed = record
        for name, value in zip(continuous, given, strict=True):
            replayed = replayed.with_param(0, name, value)
        return augment.apply(image, replayed).pow(2)

    assert gradgradcheck(through, (x, *values), fast_mode=True)  # second order over all inputs at once: random projections


@every
def test_degenerate_images_have_finite_gradients(case):
    augment = pipeline(case)
    base = small(case).float()
    flat = [torch.zeros_like(base), torch.ones_like(base), torch.full_like(base, 0.5), base.round()]
    for image in flat:
        leaf = image.requires_grad_()
        record = augment.draw(image).requires_grad_()
        loss = augment.apply(leaf, record).pow(2).sum()
        leaves = [leaf, *(v for values in record.params for v in values.values() if v.requires_grad)]
        for gradient in torch.autograd.grad(loss, leaves, allow_unused=True):
            assert gradient is None or bool(torch.isfinite(gradient).all())


@every
def test_vmap_over_images(case):
    x = torch.stack([images(case, seed=s) for s in range(3)])
    augment = pipeline(case)
    record = augment.draw(x[0])
    together = torch.vmap(lambda image: augment.apply(image, record))(x)
    alone = torch.stack([augment.apply(image, record) for image in x])
    assert torch.allclose(together, alone, rtol=0, atol=1e-13)


@every
def test_checkpoint_gives_the_eager_gradient(case):
    from torch.utils.checkpoint import checkpoint

    x = images(case).requires_grad_()
    augment = pipeline(case)
    record = augment.draw(x)
    (eager,) = torch.autograd.grad(augment.apply(x, record).pow(2).sum(), x)
    out = checkpoint(augment.apply, x, record, use_reentrant=False)
    (replayed,) = torch.autograd.grad(out.pow(2).sum(), x)
    assert torch.equal(eager, replayed)


def test_redrawing_inside_a_checkpoint_is_refused():
    from torch.utils.checkpoint import checkpoint

    case = CASES[3]
    x = images(case).requires_grad_()
    augment = pipeline(case)
    out = checkpoint(augment, x, use_reentrant=False)
    with pytest.raises(RuntimeError, match="gradient checkpointing"):
        out.sum().backward()
