"""One row per transform: the single source for contract tests, the gradient table and benchmarks."""

from dataclasses import dataclass, field

import torch

import pellucid
from pellucid import Key, Pipeline
from pellucid.types import ImageSpec

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Case:
    """A transform in its usual form, in the form that changes nothing, and where its gradient is smooth.

    Args:
        transform: usual values, with every option that adds a draw.
        identity: the same class resting; None where there is no such form.
        exact_identity: the resting form returns the input bit for bit.
        square: needs square images.
        off_kinks: values to set before a finite-difference check, away from kinks, by name; a gate's is 0.9 unless one stands here.
        unclipped: the image is squeezed into the middle of its range for finite differences, so that clips stay idle.
        targets: the dot test applies (the transform moves things).
        size: (height, width) of the pictures, where small ones mean nothing.
        jumps: a staircase of the image: a rounding of the input may move a value by a whole step.
        objects: needs masks of objects beside the images.
        batch_exact: a sample's bits do not depend on the batch around it; a matrix product rounds by its
            shape, a power by an element's place.
        group: how many samples next to one another are shown in one another.
    """

    transform: pellucid.Transform
    identity: pellucid.Transform | None = None
    exact_identity: bool = True
    square: bool = False
    off_kinks: dict[str, float | tuple[float, ...]] = field(default_factory=dict)
    unclipped: bool = False
    targets: bool = False
    batch_exact: bool = True
    group: int = 1
    size: tuple[int, int] | None = None
    jumps: bool = False
    objects: bool = False

    @property
    def name(self) -> str:
        return type(self.transform).__name__


P = pellucid
CASES = (
    Case(P.RandomHorizontalFlip(), P.RandomHorizontalFlip(p=0.0), off_kinks={"gate": 0.317}, targets=True),
    Case(P.RandomVerticalFlip(), P.RandomVerticalFlip(p=0.0), off_kinks={"gate": 0.317}, targets=True),
    Case(
        P.RandomRotation90(p=0.5), P.RandomRotation90(times=(0,)), square=True, off_kinks={"times": 0.7, "gate": 0.8}, targets=True
    ),
    Case(P.RandomD4(p=0.7), P.RandomD4((0,)), square=True, off_kinks={"elements": 5.3, "gate": 0.8}, targets=True),
    Case(
        P.RandomAffine(degrees=20, translate=(0.1, 0.2), scale=(0.8, 1.3), shear=(-5, 5, -4, 4), p=0.7),
        P.RandomAffine(degrees=0, translate=(0, 0), scale=(1, 1), shear=0),
        targets=True,
    ),
    Case(
        P.RandomAffine(20, (0.2, 0.1), scale=(0.7, 1.2, 0.9, 1.5), whole_pixels=True, p=0.7),
        P.RandomAffine(0, scale=(1, 1, 1, 1)),
        targets=True,
    ),
    Case(P.RandomRotation(30, p=0.7), P.RandomRotation(0), targets=True),
    Case(P.RandomRotation((-20, 50), expand=True, p=0.7), P.RandomRotation(0, expand=True), targets=True),
    Case(P.RandomRotation(30, interpolation="nearest", p=0.7), P.RandomRotation(0, interpolation="nearest")),
    Case(P.RandomSafeRotation(30, p=0.7), P.RandomSafeRotation(0), targets=True),
    Case(P.RandomTranslate((0.2, 0.1), p=0.7), P.RandomTranslate((0.0, 0.0)), targets=True),
    Case(P.RandomTranslate(((0.2, 0.4), (-0.4, -0.2)), whole_pixels=True, p=0.7), P.RandomTranslate((0.0, 0.0)), targets=True),
    Case(P.RandomShear((-10, 10, -8, 8), p=0.7), P.RandomShear(0), targets=True),
    Case(P.RandomScale((0.7, 1.4), p=0.7), P.RandomScale((1.0, 1.0)), targets=True),
    Case(
        P.RandomLieAffine(p=0.7),
        P.RandomLieAffine(P.MultivariateNormal((0.0,) * 6, tuple((0.0,) * i for i in range(1, 7)))),
        targets=True,
    ),
    Case(P.RandomPerspective(0.4, p=0.7), P.RandomPerspective(0.0, p=1.0), exact_identity=False, targets=True),
    Case(P.RandomElastic(6, magnitude=(0.1, 0.3), p=0.7), P.RandomElastic(6, magnitude=0.0), targets=True),
    Case(P.RandomElastic(2, border="locked", p=0.7), P.RandomElastic(2, border="locked", magnitude=0.0), targets=True),
    Case(P.RandomThinPlateSpline(3, magnitude=(0.05, 0.15), p=0.7), P.RandomThinPlateSpline(3, magnitude=0.0), targets=True),
    Case(P.RandomWave((0.02, 0.08), period=(16.0, 24.0), p=0.7), P.RandomWave(0.0, period=16.0), targets=True),
    Case(P.GridDistortion((2, 3), magnitude=(0.1, 0.3), p=0.7), P.GridDistortion(magnitude=0.0), targets=True),
    Case(
        P.LensDistortion((-0.1, 0.2), k2=(-0.005, 0.1), k3=(-0.002, 0.1), p1=(-0.005, 0.005), p2=(-0.005, 0.005), p=0.7),
        P.LensDistortion(0.0),
        targets=True,
    ),
    Case(P.RandomFisheye((20, 50), p=0.7), P.RandomFisheye(0.0), targets=True),
    Case(P.RollingShutter(p=0.7), P.RollingShutter(0.0, 0.0), targets=True),
    Case(P.RandomCrop((9, 8), padding=2, p=0.7), P.RandomCrop((11, 13)), off_kinks={"top": 0.3, "left": 1.4}, targets=True),
    Case(
        P.RandomResizedCrop((12, 10), scale=(0.3, 0.9), p=0.8),
        P.RandomResizedCrop((11, 13), scale=(1, 1), ratio=(13 / 11, 13 / 11)),
        exact_identity=False,
        targets=True,
        batch_exact=False,
    ),
    Case(
        P.RandomIoUCrop((12, 10), options=(0.3, 0.5), p=0.8),
        P.RandomIoUCrop((11, 13), options=(1.0,)),
        exact_identity=False,
        off_kinks={"window": (0.4, 0.7, 4.3, 3.9)},
        targets=True,
        batch_exact=False,
    ),
    Case(
        P.RandomBoxSafeCrop((12, 10), 0.4, p=0.8),
        P.RandomBoxSafeCrop((11, 13)),
        exact_identity=False,
        off_kinks={"window": (0.4, 0.7, 4.3, 3.9)},
        targets=True,
        batch_exact=False,
    ),
    Case(P.RandomMaskCrop((5, 5), p=0.7), P.RandomMaskCrop((11, 13)), off_kinks={"place": (1.4, 0.3)}, targets=True),
    Case(
        P.RandomCropFromBorders(left=0.1, top=0.2, right=0.3, bottom=0.15, same_on_batch=True),
        P.RandomCropFromBorders(left=0.0, top=0.0, right=0.0, bottom=0.0),
        targets=True,
    ),
    Case(P.Crop((8, 9), top=1, left=2), P.Crop((11, 13)), targets=True),
    Case(P.CenterCrop((8, 9)), P.CenterCrop((11, 13)), targets=True),
    Case(P.Resize((7, 20)), P.Resize((11, 13)), targets=True, batch_exact=False),
    Case(P.Pad((1, 2, 3, 4), fill=0.3), P.Pad(0), targets=True),
    Case(P.RandomShortestSize((9,), 10, same_on_batch=True), P.RandomShortestSize((11,)), targets=True, batch_exact=False),
    Case(P.RandomRescale(0.7, same_on_batch=True), P.RandomRescale(1.0), targets=True, batch_exact=False),
    Case(P.LongestMaxSize(9), P.LongestMaxSize((11, 13)), targets=True, batch_exact=False),
    Case(P.PadIfNeeded((14, 12), fill=0.3), P.PadIfNeeded((11, 4)), targets=True),
    Case(P.RandomZoomOut((1.2, 2.5), fill=0.3, p=0.7), P.RandomZoomOut(1.0), targets=True),
    Case(P.ScaleJitter((12, 10), (0.6, 1.7), fill=0.3), P.ScaleJitter((11, 13), 1.0), targets=True),
    Case(P.Letterbox((16, 16), fill=0.3), P.Letterbox((11, 13)), targets=True),
    Case(
        P.ColorJitter(0.3, 0.3, saturation=0.3, hue=0.1, p=0.7),
        P.ColorJitter((1, 1), (1, 1), saturation=(1, 1), hue=(0, 0)),
        exact_identity=False,
        unclipped=True,
    ),
    Case(
        P.ColorJitter(0.3, 0.3, saturation=0.3, hue=0.1, clip="each", p=0.7),
        P.ColorJitter((1, 1), (1, 1), saturation=(1, 1), hue=(0, 0), clip="each"),
        exact_identity=False,
        unclipped=True,
    ),
    Case(P.RandomBrightness(0.3, p=0.7), P.RandomBrightness((1, 1)), unclipped=True),
    Case(P.RandomContrast(0.3, p=0.7), P.RandomContrast((1, 1)), unclipped=True),
    Case(P.RandomSaturation(0.3, p=0.7), P.RandomSaturation((1, 1)), unclipped=True),
    Case(P.RandomHue(0.2, p=0.7), P.RandomHue((0, 0)), exact_identity=False, unclipped=True),
    Case(
        P.RandomPhotometricDistort(),
        P.RandomPhotometricDistort(p=0.0),
        exact_identity=False,
        off_kinks=dict.fromkeys(("brightness_gate", "contrast_gate", "saturation_gate", "hue_gate", "shuffle_gate"), 0.9),
        unclipped=True,
    ),
    Case(P.RandomBrightnessContrast(p=0.7), P.RandomBrightnessContrast(0.0, 0.0), unclipped=True),
    Case(
        P.HueSaturationValue(p=0.7),
        P.HueSaturationValue(hue=0.0, saturation=0.0, value=0.0),
        exact_identity=False,
        unclipped=True,
    ),
    Case(P.RandomSepia((0.2, 0.9), p=0.7), P.RandomSepia(0.0), unclipped=True),
    Case(P.RandomVibrance(p=0.7), P.RandomVibrance(0.0), exact_identity=False, unclipped=True),
    Case(P.RGBShift(p=0.7), P.RGBShift(red=0.0, green=0.0, blue=0.0), unclipped=True),
    Case(P.FancyPCA(p=0.7), P.FancyPCA(0.0), unclipped=True),
    Case(P.PlanckianJitter((4100, 9000), p=0.7), P.PlanckianJitter(p=0.0), unclipped=True),
    Case(P.ChannelDropout((0.5, 2.5), fill=0.3, p=0.7), P.ChannelDropout(0)),
    Case(P.RandomGrayscale(p=0.5), P.RandomGrayscale(p=0.0), off_kinks={"gate": 0.4}),
    Case(P.RandomInvert(), P.RandomInvert(p=0.0), off_kinks={"gate": 0.4}),
    Case(P.RandomGamma((0.6, 1.6), gain=(0.9, 1.1), p=0.7), P.RandomGamma((1.0, 1.0)), unclipped=True, batch_exact=False),
    Case(P.RandomToneCurve(p=0.7), P.RandomToneCurve(p=0.0), unclipped=True),
    Case(P.RandomPosterize((3.5, 7.5), p=0.7), P.RandomPosterize(p=0.0), off_kinks={"bits": 5.2}, jumps=True),
    Case(
        P.RandomPosterize((3.5, 7.5), p=1.0, image_gradient="none", surrogate="none"),
        P.RandomPosterize(p=0.0, image_gradient="none", surrogate="none"),
        off_kinks={"bits": 5.2},
        jumps=True,
    ),
    Case(P.RandomSolarize((0.3, 0.9), p=0.7), P.RandomSolarize(p=0.0), off_kinks={"threshold": 0.6}, jumps=True),
    Case(P.RandomEqualize(p=0.7), P.RandomEqualize(p=0.0), size=(18, 16), jumps=True),
    Case(
        P.RandomCLAHE((10.0, 30.0), tiles=(2, 3), p=0.7, h=5.0),
        P.RandomCLAHE(p=0.0),
        off_kinks={"clip_limit": 20.0},
        size=(18, 16),
        jumps=True,
    ),
    Case(P.RandomAutoContrast(p=0.7), P.RandomAutoContrast(p=0.0)),
    Case(P.RandomChannelShuffle(), P.RandomChannelShuffle(p=0.0), off_kinks={"gate": 0.4}),
    Case(P.RandomGaussianBlur(5, sigma=(0.5, 1.5), p=0.7), P.RandomGaussianBlur(5, p=0.0)),
    Case(P.RandomBoxBlur((1.2, 4.8), p=0.7), P.RandomBoxBlur(1.0)),
    Case(P.RandomMotionBlur((1.0, 4.0), p=0.7), P.RandomMotionBlur(0.0)),
    Case(P.RandomDefocusBlur((0.6, 2.3), p=0.7), P.RandomDefocusBlur(0.0)),
    Case(P.RandomAnisotropicBlur((0.5, 0.9), (1.1, 1.4), p=0.7), P.RandomAnisotropicBlur(p=0.0)),
    Case(P.RandomGlassBlur((0.5, 0.9), 2, p=0.7), P.RandomGlassBlur(p=0.0)),
    Case(P.RandomDownscale(p=0.7), P.RandomDownscale(1.0)),
    Case(P.RandomMedianBlur(3, p=0.7), P.RandomMedianBlur(1)),
    Case(P.RandomUnsharpMask((0.4, 0.9), (0.2, 0.6), p=0.7), P.RandomUnsharpMask(1.0, 0.0), unclipped=True),
    Case(P.RandomEmboss((0.1, 0.4), (0.1, 0.5), p=0.7), P.RandomEmboss(0.0), unclipped=True),
    Case(P.RandomSharpness(0.6, p=0.7), P.RandomSharpness((1, 1), p=1.0), unclipped=True),
    Case(P.RandomGaussianNoise(mean=(-0.02, 0.02), sigma=(0.01, 0.03), p=0.7), P.RandomGaussianNoise(sigma=0.0), unclipped=True),
    Case(P.MultiplicativeNoise(p=0.7), P.MultiplicativeNoise(0.0), unclipped=True),
    Case(P.ISONoise(p=0.7), P.ISONoise(p=0.0), unclipped=True),
    Case(P.RandomErasing(p=0.7, fill=0.4), P.RandomErasing(p=0.0), off_kinks={"gate": 0.93}),
    Case(P.RandomErasing(p=0.7, fill=0.4, inside=False), P.RandomErasing(p=0.0), off_kinks={"gate": 0.93}),
    Case(P.RandomErasing(p=0.7, fill="random"), P.RandomErasing(p=0.0, fill="random"), off_kinks={"gate": 0.93}),
    Case(
        P.CoarseDropout((1, 3), height=(0.5, 0.7), width=(0.5, 0.7), p=0.7, fill=0.4),
        P.CoarseDropout(0),
        off_kinks={"gate": 0.93, "count": 2.6},
    ),
    Case(
        P.CoarseDropout((1, 3), height=(0.5, 0.7), width=(0.5, 0.7), p=0.7, inside=False),
        P.CoarseDropout(0),
        off_kinks={"gate": 0.93, "count": 2.6},
    ),
    Case(
        P.CoarseDropout(2, height=(0.5, 0.7), width=(0.5, 0.7), p=0.7, fill="random"),
        P.CoarseDropout(p=0.0, fill="random"),
        off_kinks={"gate": 0.93, "count": 1.6},
    ),
    Case(P.GridDropout((2, 3), (0.3, 0.6), p=0.7, fill=0.4), P.GridDropout(ratio=0.0), off_kinks={"gate": 0.93}),
    Case(P.PoissonGaussianNoise((0.0001, 0.001), (0.005, 0.02), p=0.7), P.PoissonGaussianNoise(0.0, 0.0), unclipped=True),
    Case(P.ShotNoise((10, 30), p=0.7), P.ShotNoise(p=0.0), jumps=True),
    Case(P.RandomPlasmaFog(p=0.7), P.RandomPlasmaFog(0.0), unclipped=True),
    Case(P.RandomPlasmaBrightness(p=0.7), P.RandomPlasmaBrightness(0.0), unclipped=True),
    Case(P.RandomPlasmaContrast(p=0.7), P.RandomPlasmaContrast(0.0), unclipped=True),
    Case(P.RandomLinearIllumination(p=0.7), P.RandomLinearIllumination(0.0), unclipped=True),
    Case(
        P.RandomCornerIllumination(p=0.7),
        P.RandomCornerIllumination(0.0),
        off_kinks={"sign": 0.6, "x": 0.3, "y": 0.8},
        unclipped=True,
    ),
    Case(P.RandomSpotIllumination(p=0.7), P.RandomSpotIllumination(0.0), unclipped=True),
    Case(P.RandomShadow(p=0.7), P.RandomShadow(0.0)),
    Case(P.RandomSunFlare((0.2, 0.5), p=0.7), P.RandomSunFlare(0.0)),
    Case(P.RandomPlasmaShadow(p=0.7), P.RandomPlasmaShadow(0.0), unclipped=True),
    Case(P.RandomRain(density=(0.1, 0.3), length=(2.0, 4.0), p=0.7), P.RandomRain(0.0)),
    Case(P.RandomSnow(p=0.7), P.RandomSnow(0.0), unclipped=True),
    Case(P.SaltAndPepper((0.1, 0.3), (0.3, 0.6), p=0.7), P.SaltAndPepper(0.0)),
    Case(P.RandomJPEG((20, 80), p=0.7), P.RandomJPEG(p=0.0), off_kinks={"quality": 50.0}, jumps=True, size=(18, 20)),
    Case(P.MixUp((0.2, 0.9), p=0.7), P.MixUp(p=0.0), group=2),
    Case(P.CutMix((0.2, 0.9), p=0.7), P.CutMix(p=0.0), group=2),
    Case(P.CutMix((0.2, 0.9), edge=1.5, p=0.7), P.CutMix(1.0, edge=1.5), off_kinks={"lam": 0.63, "x": 0.43, "y": 0.57}, group=2),
    Case(P.Mosaic(scale=(0.6, 1.4), p=0.7), P.Mosaic(p=0.0), group=4, size=(4, 5)),
    Case(P.CopyPaste((0.3, 0.9), p=0.7), P.CopyPaste(p=0.0), off_kinks={"share": 1.0}, group=2, size=(4, 5), objects=True),
    Case(P.CopyPaste((0.3, 0.9), sigma=0.8, p=0.7), P.CopyPaste(0.0), off_kinks={"share": 1.0}, group=2, size=(4, 5), objects=True),
    Case(P.GridShuffle((1, 3), p=0.7), P.GridShuffle(1), off_kinks={"gate": 0.93}, size=(3, 6)),
    Case(P.RandomZoomBlur((1.1, 1.4), 2, p=0.7), P.RandomZoomBlur(1.0), exact_identity=False, size=(4, 5)),
    Case(P.Normalize(MEAN, STD), P.Normalize((0.0,), (1.0,))),
    Case(P.Denormalize(MEAN, STD), P.Denormalize((0.0,), (1.0,))),
    Case(
        P.OneOf([P.RandomRotation(30), [P.RandomHorizontalFlip(), P.RandomBrightness(0.2)], P.RandomShear(20)], weights=(2, 1, 1)),
        P.OneOf([[], []]),
        off_kinks={"choice": 0.3},
        unclipped=True,
        targets=True,
    ),
    Case(
        P.OneOf([P.RandomCrop((5, 4)), P.RandomResizedCrop((5, 4), antialias=False)]),
        P.OneOf([P.CenterCrop((11, 13)), P.RandomCrop((11, 13))]),
        off_kinks={"choice": 0.5},
        batch_exact=False,
    ),
    Case(
        P.SomeOf([P.RandomTranslate((0.2, 0.1)), P.RandomInvert(p=1.0), P.RandomGaussianBlur(3)], n=2, replace=True),
        P.SomeOf([P.RandomInvert(p=1.0)], n=0),
        off_kinks={"choice_0": 0.3, "choice_1": 0.25},
    ),
    Case(P.SomeOf([P.RandomTranslate((0.2, 0.1)), P.RandomInvert(p=1.0)], n=1), P.SomeOf([[]], n=1), targets=True),
    Case(P.Shuffle([P.RandomSolarize(0.5, p=1.0), P.RandomInvert(p=1.0)]), P.Shuffle([[]]), jumps=True),
    Case(
        P.Apply([P.RandomHorizontalFlip(p=1.0), P.RandomBrightness(0.2)], p=0.7),
        P.Apply([P.RandomHorizontalFlip(p=1.0)], p=0.0),
        off_kinks={"gate": 0.317},
        unclipped=True,
        targets=True,
    ),
    Case(
        P.Mixture([P.RandomBrightness(0.2, p=1.0), [P.RandomInvert(), P.RandomGaussianBlur(3)]], p=0.7),
        P.Mixture([P.RandomInvert(p=1.0)], p=0.0),
        unclipped=True,
    ),
    Case(
        P.PerPatch([P.RandomBrightness(0.2, p=1.0), P.RandomGaussianBlur(3)], grid=(2, 3), p=0.7),
        P.PerPatch([P.RandomInvert(p=1.0)], p=0.0),
        unclipped=True,
    ),
    Case(
        P.PerChannel([P.RandomBrightness(0.2, p=1.0), P.RandomGaussianBlur(3, sigma=(0.5, 1.0))], p=0.7),
        P.PerChannel([P.RandomInvert(p=1.0)], p=0.0),
        unclipped=True,
    ),
    Case(P.RicianNoise((0.01, 0.1), p=0.7), P.RicianNoise(0.0)),
    Case(P.RandomGammaInRange((0.7, 1.5), p=0.7), P.RandomGammaInRange(1.0), exact_identity=False, batch_exact=False),
    Case(P.RandomContrastInRange((0.7, 0.9), p=0.7), P.RandomContrastInRange(p=0.0), batch_exact=False),
    Case(P.RandomLowResolution((0.4, 0.9), p=0.7), P.RandomLowResolution(1.0)),
    Case(P.RandomBiasField(0.4, p=0.7), P.RandomBiasField(0.0), batch_exact=False),
)
IDS = [f"{case.name}-{i}" for i, case in enumerate(CASES)]

HEIGHT, WIDTH = 11, 13


def size_of(case: Case) -> tuple[int, int]:
    if case.size is not None:
        return case.size
    return (HEIGHT, HEIGHT) if case.square else (HEIGHT, WIDTH)


def images(case: Case, batch: int = 3, channels: int = 3, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    """Random images; squeezed into the middle of the range where the case asks for idle clips."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand((batch, channels, *size_of(case)), generator=generator, dtype=torch.float64)
    return (0.4 + 0.2 * x if case.unclipped else x).to(dtype)


class _WithObjects(Pipeline):
    """Takes images alone, and lays the same masks of two objects beside each of them."""

    def forward(self, batch, **options):
        found = super().forward(_objects(batch), **options)
        return (found[0]["image"], found[1]) if isinstance(found, tuple) else found["image"]

    def draw(self, batch, **options):
        return super().draw(_objects(batch), **options)

    def apply(self, batch, record=None, **options):
        return super().apply(_objects(batch), record, **options)["image"]


def _objects(batch):
    """Images and the masks of two objects, which overlap; what has targets already stays as it is."""
    if not isinstance(batch, torch.Tensor):
        return batch
    rows, columns = (torch.arange(side, device=batch.device) for side in batch.shape[-2:])
    first = (rows[:, None] < len(rows) - 1) & (columns < len(columns) // 2)
    second = (rows[:, None] > 0) & (columns >= len(columns) // 3)
    masks = torch.stack((first, second))
    return {"image": batch, "masks": masks.expand(*batch.shape[:-3], -1, -1, -1)}


def pipeline(case: Case, **options: object) -> Pipeline:
    return (_WithObjects if case.objects else Pipeline)([case.transform], seed=5, **options)


def spec_of(case: Case) -> ImageSpec:
    return ImageSpec(3, *size_of(case))


def smooth_record(case: Case, x: torch.Tensor, key: Key | None = None) -> pellucid.Record:
    """A record whose values lie off the kinks, so that finite differences mean something."""
    record = pipeline(case).draw(x, key=key or Key(3, 1))
    for name, value in ({"gate": 0.9} | case.off_kinks).items():
        if name in record.params[0]:
            drawn = record.params[0][name]
            record = record.with_param(0, name, torch.tensor(value, dtype=drawn.dtype).expand_as(drawn).clone())
    return record
