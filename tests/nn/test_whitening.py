"""Whitening against numpy and scipy; its gradients against float64 finite differences where eigenvalues meet, vanish or spread."""

import math

import numpy as np
import pytest
import scipy.linalg
import torch

from pellucid.errors import InvalidArgument
from pellucid.nn import (
    CholeskyWhitening,
    LinearTransformation,
    PCAWhitening,
    ZCAWhitening,
    apply_whitener,
    fit_whitener,
    invert_whitener,
    matrix_roots,
    stable_eigh,
    zca_mean,
    zca_whiten,
)
from tests.refusals import refused

METHODS = ["zca", "pca", "cholesky"]
LAYERS = {"zca": ZCAWhitening, "pca": PCAWhitening, "cholesky": CholeskyWhitening}


def data(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def rotation(d, seed=5):
    return torch.linalg.qr(data(d, d, seed=seed))[0]


def isotropic(n=8, d=4):
    """Data whose covariance is a multiple of the identity: every eigenvalue is the same."""
    centred = data(n, d) - data(n, d).mean(0)
    return torch.linalg.qr(centred)[0] * math.sqrt(n - 1) + 3


def rank_deficient(n=4, d=6):
    return data(n, d) * 2 + 1  # three directions and three eigenvalues of zero


def conditioned(condition, n=40, d=5):
    basis = torch.linalg.qr(data(n, d) - data(n, d).mean(0))[0]
    return basis * torch.logspace(0, -0.5 * math.log10(condition), d, dtype=torch.float64) @ rotation(d).T


CASES = {"isotropic": isotropic(), "rank deficient": rank_deficient(), "condition 1e6": conditioned(1e6), "plain": data(8, 3)}


@pytest.mark.parametrize("method", METHODS)
def test_whitens(method):
    x = data(50, 4) @ data(4, 4, seed=1) + 2
    y = apply_whitener(x, fit_whitener(x, method=method, eps=1e-12))
    np.testing.assert_allclose(np.cov(y.numpy().T), np.eye(4), atol=1e-9)
    np.testing.assert_allclose(y.mean(0), 0, atol=1e-10)
    biased = apply_whitener(x, fit_whitener(x, method=method, eps=1e-12, unbiased=False))
    np.testing.assert_allclose(np.cov(biased.numpy().T, ddof=0), np.eye(4), atol=1e-9)


def test_transforms_are_the_textbook_ones():
    x, eps = data(30, 4) @ data(4, 4, seed=1), 1e-3
    shrunk = np.cov(x.numpy().T) + eps * np.eye(4)
    zca = fit_whitener(x, method="zca", eps=eps)
    np.testing.assert_allclose(zca.transform, np.linalg.inv(scipy.linalg.sqrtm(shrunk)), atol=1e-11)
    np.testing.assert_allclose(zca.inverse, scipy.linalg.sqrtm(shrunk), atol=1e-11)
    cholesky = fit_whitener(x, method="cholesky", eps=eps)
    np.testing.assert_allclose(cholesky.transform.T, np.linalg.inv(np.linalg.cholesky(shrunk)), atol=1e-11)
    pca = fit_whitener(x, method="pca", eps=eps)
    axes = pca.transform.numpy()
    np.testing.assert_allclose(axes.T @ shrunk @ axes, np.eye(4), atol=1e-11)
    sizes = pca.transform.norm(dim=0)
    assert (sizes.diff() > 0).all()  # largest variance first: smallest gain first


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("shape", "dim"), [((30, 5), 0), ((5, 30), 1), ((3, 30, 2), 1), ((3, 2, 30), -1), ((30, 2, 2, 2), 0)])
def test_inverse_along_any_dimension(method, shape, dim):
    x = data(*shape)
    whitener = fit_whitener(x, dim, method=method)
    y = apply_whitener(x, whitener, dim)
    assert y.shape == x.shape
    flat = y.movedim(dim, 0).flatten(1)
    np.testing.assert_allclose(np.cov(flat.numpy().T), np.eye(flat.shape[1]), atol=1e-4)
    torch.testing.assert_close(invert_whitener(y, whitener, dim), x, rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_batch_is_a_loop_and_vmap_is_a_batch(method):
    x = data(3, 2, 20, 4)

    def white(x, batch_dims=0):
        return apply_whitener(
            x, fit_whitener(x, batch_dims, method=method, batch_dims=batch_dims), batch_dims, batch_dims=batch_dims
        )

    batch = white(x, 2)
    for i in range(3):
        for j in range(2):
            torch.testing.assert_close(batch[i, j], white(x[i, j]), rtol=0, atol=1e-11)
    torch.testing.assert_close(torch.vmap(torch.vmap(white))(x), batch, rtol=0, atol=1e-11)
    grads = torch.vmap(torch.func.grad(lambda x: white(x).pow(3).sum()))(x[0])
    leaf = x.clone().requires_grad_()
    torch.testing.assert_close(grads, torch.autograd.grad(white(leaf, 2).pow(3).sum(), leaf)[0][0], rtol=1e-9, atol=1e-9)


def directional(f, x, direction, h):
    """Fourth-order central difference."""
    return (8 * (f(x + h * direction) - f(x - h * direction)) - (f(x + 2 * h * direction) - f(x - 2 * h * direction))) / (12 * h)


@pytest.mark.parametrize("method", ["zca", "cholesky"])
@pytest.mark.parametrize("case", CASES)
def test_gradient_through_the_fit(case, method):
    """Relative error below 1e-7 against finite differences, in directions that move the whole data set."""
    x = CASES[case]
    weights = data(*x.shape, seed=7)

    def loss(x):
        return (weights * apply_whitener(x, fit_whitener(x, method=method, eps=1e-8 if case == "condition 1e6" else 1e-4))).sum()

    leaf = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(loss(leaf), leaf)
    for seed in range(5):
        direction = data(*x.shape, seed=10 + seed)
        wanted = directional(loss, x, direction, 1e-6 if case == "condition 1e6" else 1e-4)
        assert abs((grad * direction).sum() - wanted) < 1e-7 * abs(wanted)


@pytest.mark.parametrize("case", ["isotropic", "rank deficient", "plain"])
def test_gradcheck(case):
    x = CASES[case].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: zca_whiten(x, eps=1e-2, detach_transforms=False), x)
    assert torch.autograd.gradgradcheck(lambda x: zca_whiten(x, eps=1e-2, detach_transforms=False), x)


@pytest.mark.parametrize("eigenvalues", [[1.0, 1, 1, 1], [2.0, 1, 1, 0], [3.0, 2, 1, 0.5], [0.0, 0, 0, 0]])
def test_matrix_roots_in_both_orders(eigenvalues):
    basis = rotation(4)
    matrix = ((basis * torch.tensor(eigenvalues, dtype=torch.float64)) @ basis.T).requires_grad_()
    eps = 0.3  # also keeps the differences' negative eigenvalues out of the clipping at zero

    def shifted(m):
        return matrix_roots(m + 0.1 * torch.eye(4, dtype=torch.float64), eps=eps)

    assert torch.autograd.gradcheck(shifted, matrix)
    assert torch.autograd.gradgradcheck(shifted, matrix)


def test_daleckii_krein_against_eigh_autograd_at_condition_1e6():
    eigenvalues = torch.logspace(0, -6, 5, dtype=torch.float64)
    matrix = (rotation(5) * eigenvalues) @ rotation(5).T
    matrix = (matrix + matrix.T) / 2
    g = data(5, 5)
    leaf = matrix.clone().requires_grad_()
    (got,) = torch.autograd.grad(matrix_roots(leaf, eps=1e-14)[1], leaf, g)
    values, vectors = torch.linalg.eigh(leaf)
    (wanted,) = torch.autograd.grad((vectors / values.sqrt()) @ vectors.T, leaf, g)
    wanted = (wanted + wanted.T) / 2
    assert (got - wanted).norm() < 1e-6 * wanted.norm()


def test_the_example_on_which_peers_give_nan():
    x = torch.tensor([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0], [0.0, -1.0]], dtype=torch.float64, requires_grad=True)
    covariance = x.T @ x / 3
    values, vectors = torch.linalg.eigh(covariance)
    (peer,) = torch.autograd.grad((x @ (vectors / values.sqrt()) @ vectors.T).pow(3).sum(), x)
    assert peer.isnan().any()
    out = zca_whiten(x, detach_transforms=False)
    torch.testing.assert_close(out, 1.5**0.5 * x, rtol=0, atol=1e-5)
    (grad,) = torch.autograd.grad(out.pow(3).sum(), x)
    for seed in range(4):
        direction = data(4, 2, seed=seed)
        wanted = directional(lambda x: zca_whiten(x, detach_transforms=False).pow(3).sum(), x.detach(), direction, 1e-4)
        torch.testing.assert_close((grad * direction).sum(), wanted, rtol=0, atol=1e-9)


def test_detached_transform_is_a_constant_to_the_gradient():
    x, g = data(10, 3), data(10, 3, seed=1)
    transform = zca_mean(x).transform
    leaf = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(zca_whiten(leaf), leaf, g)
    torch.testing.assert_close(grad, g @ transform.T, rtol=0, atol=1e-12)


def test_pca_gradient():
    x = data(12, 3) @ torch.diag(torch.tensor([3.0, 2.0, 1.0], dtype=torch.float64))
    x.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: apply_whitener(x, fit_whitener(x, method="pca", eps=1e-2)), x)
    assert torch.autograd.gradgradcheck(lambda x: apply_whitener(x, fit_whitener(x, method="pca", eps=1e-2)), x)


def test_pca_at_repeated_eigenvalues_is_finite_where_eigh_is_not():
    matrix = torch.eye(3, dtype=torch.float64).requires_grad_()
    for eigh, finite in ((torch.linalg.eigh, False), (stable_eigh, True)):
        (grad,) = torch.autograd.grad(eigh(matrix)[1].pow(3).sum() + eigh(matrix)[1][0, 1], matrix)
        assert bool(grad.isfinite().all()) is finite
    x = isotropic().requires_grad_()
    (grad,) = torch.autograd.grad(apply_whitener(x, fit_whitener(x, method="pca", eps=1e-4)).pow(3).sum(), x)
    assert grad.isfinite().all()


def test_cholesky_and_zca_agree_where_the_loss_cannot_tell_them_apart():
    x, g = isotropic().requires_grad_(), data(4, 4, seed=2)
    grads = []
    for method in ("zca", "cholesky"):
        transform = fit_whitener(x, method=method, eps=1e-4).transform
        grads.append(torch.autograd.grad((transform @ transform.T * g).sum(), x)[0])  # (cov + eps)^-1, whatever the method
    torch.testing.assert_close(*grads, rtol=0, atol=1e-10)


def test_stable_eigh_fixes_order_and_sign():
    matrix = data(6, 5, 5)
    matrix = matrix @ matrix.mT
    values, vectors = stable_eigh(matrix)
    assert (values.diff(dim=-1) <= 0).all()
    torch.testing.assert_close((vectors * values[:, None, :]) @ vectors.mT, matrix, rtol=0, atol=1e-11)
    assert (vectors.gather(1, vectors.abs().argmax(1, keepdim=True)) > 0).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_degenerate_and_half_precision_inputs_stay_finite(method, dtype):
    for x in (torch.zeros(5, 3), torch.full((5, 3), 7.0), torch.ones(1, 3), 100 * data(2, 6), 100 * data(40, 3)):
        x = x.to(dtype).requires_grad_()
        y = apply_whitener(x, fit_whitener(x, method=method, eps=1e-5))
        (grad,) = torch.autograd.grad(y.float().square().sum(), x)
        assert y.dtype == dtype
        assert y.isfinite().all()
        assert grad.isfinite().all()


@pytest.mark.parametrize("method", METHODS)
def test_layers_fit_transform_invert_save_and_load(method):
    x, other = data(40, 3, 2), data(5, 3, 2, seed=1)
    layer = LAYERS[method]().double()
    refused(InvalidArgument, "include_fit=True", layer, x)
    fitted = fit_whitener(x, method=method)
    assert torch.equal(layer(x, include_fit=True), apply_whitener(x, fitted))
    assert torch.equal(layer(other), apply_whitener(other, fitted))
    torch.testing.assert_close(layer.inverse_transform(layer(other)), other, rtol=0, atol=1e-9)
    loaded = LAYERS[method]()
    loaded.load_state_dict(layer.state_dict())
    assert torch.equal(loaded(other), layer(other))


def test_layer_detaches_its_fit_unless_told_not_to():
    x, other = data(40, 3).requires_grad_(), data(5, 3, seed=1).requires_grad_()
    (_, to_other) = torch.autograd.grad(ZCAWhitening().fit(x)(other).sum(), [x, other], allow_unused=True)
    assert _ is None
    assert to_other is not None
    through = torch.autograd.grad(ZCAWhitening(detach_transforms=False).fit(x)(other).square().sum(), x)[0]
    assert through.abs().max() > 1e-3


def test_a_matrix_that_was_fitted_elsewhere():
    x, other = data(4, 3, 2, 2), data(9, 12, seed=1)
    whitener = fit_whitener(other)
    layer = LinearTransformation(whitener.transform, whitener.mean[0])
    assert torch.equal(layer(x), apply_whitener(x, whitener))
    assert torch.autograd.gradcheck(layer, x.requires_grad_())
    assert torch.autograd.gradgradcheck(layer, x)
    assert set(layer.state_dict()) == {"matrix", "mean"}


def test_errors():
    with pytest.raises(InvalidArgument, match=r"matrix, mean: expected shapes \(D, D\) and \(D,\), got \(3, 4\) and \(4,\)"):
        LinearTransformation(torch.zeros(3, 4), torch.zeros(4))
    refused(InvalidArgument, "eps", zca_mean, torch.zeros(4, 2), eps=0.0)
    refused(InvalidArgument, "method", fit_whitener, torch.zeros(4, 2), method="svd")
    refused(InvalidArgument, "dim", zca_mean, torch.zeros(4, 2), 2)
    refused(InvalidArgument, "batch_dims", zca_mean, torch.zeros(4, 2), 1, batch_dims=1)
    refused(InvalidArgument, "2 features", apply_whitener, torch.zeros(4, 3), zca_mean(torch.zeros(4, 2)))
