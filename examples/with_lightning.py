"""Train with Lightning: the pipeline is a part of the module, augments whole batches where they are, and goes into its checkpoints.

    pip install lightning scikit-learn
    python examples/with_lightning.py

Data: scikit-learn's 1,797 digits, 8 x 8. Result: accuracy 0.909 on the last quarter after 10 epochs.
"""

import argparse
import tempfile
from typing import Any

import lightning as L
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from pellucid import ColorJitter, Pipeline, RandomAffine


class Classifier(L.LightningModule):
    """A small network and its augmentation."""

    def __init__(self) -> None:
        super().__init__()
        self.augment = Pipeline([RandomAffine(degrees=10, translate=(0.08, 0.08)), ColorJitter(0.2, 0.2)], seed=0)
        self.net = nn.Sequential(
            *(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU()), *(nn.Flatten(), nn.Linear(512, 10))
        )

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """Augment on the device, in training alone; every batch takes the next step of the pipeline's stream."""
        del dataloader_idx
        images, labels = batch
        return (self.augment(images), labels) if self.trainer.training else batch

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        """The loss of a batch."""
        images, labels = batch
        return nn.functional.cross_entropy(self.net(images), labels)

    def validation_step(self, batch: tuple[Tensor, Tensor]) -> None:
        """The accuracy, which Lightning averages over batches."""
        images, labels = batch
        self.log("accuracy", (self.net(images).argmax(1) == labels).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam, on whatever learns."""
        return torch.optim.Adam(self.parameters(), 3e-3)


def main(epochs: int) -> float:
    """Train; return the accuracy on the last quarter of the digits."""
    L.seed_everything(0, verbose=False)
    digits = load_digits()
    data = TensorDataset(torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16, torch.tensor(digits.target))
    cut = 3 * len(data) // 4
    train = DataLoader(torch.utils.data.Subset(data, range(cut)), 64, shuffle=True)
    test = DataLoader(torch.utils.data.Subset(data, range(cut, len(data))), 64)
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(max_epochs=epochs, accelerator="auto", default_root_dir=folder, logger=False, enable_progress_bar=False)
        model = Classifier()
        trainer.fit(model, train)
        saved = Classifier.load_from_checkpoint(trainer.checkpoint_callback.best_model_path)
        assert str(saved.augment.state_dict()) == str(model.augment.state_dict())  # a run that goes on repeats no draw
        (reached,) = trainer.validate(model, test, verbose=False)
    return reached["accuracy"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    print(f"accuracy {main(**vars(parser.parse_args())):.3f}")
