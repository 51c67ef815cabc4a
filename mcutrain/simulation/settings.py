"""All that determines a run besides model, scheme and data."""

from __future__ import annotations

from mcutrain_host.dataclass import dataclass

from mcutrain.arguments import EPOCHS
from mcutrain.errors import DataError
from mcutrain.features import FeatureSettings
from mcutrain.simulation.augment import LEAST_DB, MOST_DB, OF_RAW, check_kinds
from mcutrain.simulation.batches import BATCHES, MIXED


def rounding_seed(seed: int) -> int:
    """Seed of the random numbers that round. It is never 0, a seed that they lack."""
    return seed + 1


@dataclass(frozen=True)
class RunSettings(FeatureSettings):
    """All that determines a run besides model, scheme and data, and what features add to it.

    learning_rate: per sample; None is to be found, see mcutrain.simulation.range_test.
    schedule: cosine or constant.
    warmup: share of all steps in which the rate rises.
    seed: of the order of samples and of the augmentation.
    flip, crop_pixels: random changes of images.
    augment: more of them, see mcutrain.simulation.augment.
    background: a folder of sounds, noise that is mixed behind samples before the front end, at a
        signal-to-noise ratio within snr_db.
    versions: in how many ways at most a sample is varied. The same ways come again after so many
        epochs, so latents of them can be kept. 0: other ways in each epoch.
    test_every: epochs from one test to the next; 0 tests only before the first and after the last.
        It changes nothing that is learnt.
    replay: remembered samples that follow each new one, out of at most `remember`, see
        mcutrain.simulation.replay. An epoch then has 1 + replay steps for each training sample.
    batches: whether the samples of an update are mixed, as they come, or of one level of proxies.
    """

    epochs: int = EPOCHS
    learning_rate: float | None = None
    schedule: str = "cosine"
    warmup: float = 0.1
    seed: int = 0
    flip: bool = False
    crop_pixels: int = 0
    test_every: int = 1
    augment: tuple[str, ...] = ()
    background: str = ""
    snr_db: tuple[int, int] = (5, 30)
    replay: int = 0
    remember: int = 200
    versions: int = 0
    batches: str = MIXED

    @property
    def rounding_seed(self) -> int:
        """Seed of the random numbers by which updates are rounded."""
        return rounding_seed(self.seed)

    @property
    def varies_samples(self) -> bool:
        """Whether samples are augmented."""
        return self.flip or self.crop_pixels > 0 or bool(self.augment) or self.varies_raw

    @property
    def varies_raw(self) -> bool:
        """Whether what a front end takes is augmented."""
        return bool(self.background) or any(kind in OF_RAW for kind in self.augment)

    @property
    def kept_versions(self) -> int:
        """Latents to keep of each training sample; 0 if each epoch has new ones."""
        return self.versions if self.varies_samples else 1

    def check(self) -> None:
        """Raise DataError for settings that do not go together."""
        if self.test_every < 0:
            raise DataError(f"test_every = {self.test_every}: give 0 or more epochs")
        check_kinds(self.augment)
        low, high = self.snr_db
        if not LEAST_DB <= low <= high <= MOST_DB:
            raise DataError(
                f"a signal-to-noise ratio from {low} to {high} dB: give two whole numbers from "
                f"{LEAST_DB} to {MOST_DB}, the lower first, as 5,30"
            )
        if self.replay < 0 or self.remember < 1:
            raise DataError(
                f"replay = {self.replay}, remember = {self.remember}: give 0 or more samples to "
                "replay after each new one, and room for 1 or more"
            )
        if self.versions < 0 or (self.versions > 0 and not self.varies_samples):
            raise DataError(
                f"versions = {self.versions} is of samples that are varied, 1 or more: give an "
                "augmentation, too, or leave it out"
            )
        if self.batches not in BATCHES:
            raise DataError(f"batches = {self.batches!r}: give {' or '.join(BATCHES)}")
        super().check()
        if self.replay > 0 and self.varies_samples:
            raise DataError(
                "a remembered sample is replayed as it was, but here epochs vary the samples: "
                "leave out the augmentation, or the replay"
            )

    def epoch_steps(self, samples: int) -> int:
        """Steps of an epoch of so many training samples."""
        return samples * (1 + self.replay)

    def tests_after(self, epoch: int) -> bool:
        """Return whether there is a test after an epoch, counted from 1; after the last always."""
        return epoch == self.epochs or (self.test_every > 0 and epoch % self.test_every == 0)
