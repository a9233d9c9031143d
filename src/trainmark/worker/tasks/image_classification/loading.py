"""Real images for a framework's own loader: which rank uses which, and each one decoded, cropped and flipped."""

from typing import Any
from zlib import crc32

from ...core.outcomes import OOM, UNSUPPORTED, RunError
from ...core.place import Place
from ...core.produced import Produced
from ...core.queues import Cut
from .decoding import choose_decoder, decoder_names, load_image
from .images import Dealer, Draw, read_images
from .settings import ImageSettings


class Photos:
    """The images of a run, indexed by ``Draw``; what a framework's loader takes for a data set. It can be pickled."""

    def __init__(self, settings: ImageSettings, place: Place) -> None:
        """Find the images and a decoder; raise ``RunError`` (failed, unsupported) if there are none."""
        decoder = choose_decoder()
        if decoder is None:
            raise RunError(
                UNSUPPORTED,
                f"no JPEG decoder is installed here; install one of: {', '.join(decoder_names())}",
            )
        self.decoder = decoder
        self.images = read_images(settings.data, settings.classes)
        self.size, self._seed = settings.image_size, settings.seed
        self.dealer = Dealer(
            len(self), settings.batch_per_device, place.rank, place.world_size, settings.seed
        )
        """The batches of this rank, each a list of draws, without end."""
        self.produced = Produced()
        """Counts the images that were made."""

    def __len__(self) -> int:
        """Return the images of an epoch."""
        return len(self.images.paths)

    def __getitem__(self, draw: Draw) -> Any:
        """Return (bytes (size, size, 3), label), or the ``RunError`` that tells what went wrong.

        Returned and not raised: loaders wrap an exception of their processes into a text of many lines.
        """
        try:
            return self.load(draw)
        except RunError as stopped:
            return stopped
        except MemoryError:
            return RunError(OOM, "a loader process could not allocate memory")

    def load(self, draw: Draw) -> tuple[Any, int]:
        """Return (bytes (size, size, 3), label); raise ``RunError``, naming the file, if it cannot be read."""
        path = self.images.paths[draw.image]
        image = load_image(path, draw, self.size, self._seed, self.decoder)
        self.produced.add(1, [crc32(path.encode())])
        return image, self.images.labels[draw.image]

    def parts(self, count: int) -> Cut:
        """Return the draws of this rank in parts, ``count`` a batch."""
        return Cut(self.dealer, count)


def collate(samples: list[Any]) -> Any:
    """Return (bytes (batch, size, size, 3), labels (batch,) in int64), or the first ``RunError`` of the samples."""
    import numpy as np

    for sample in samples:
        if isinstance(sample, RunError):
            return sample
    pixels, labels = zip(*samples)
    return np.stack(pixels), np.array(labels, np.int64)


def join(parts: list[Any]) -> Any:
    """Return one batch of parts that ``collate`` has made."""
    import numpy as np

    pixels, labels = zip(*parts)
    return np.concatenate(pixels), np.concatenate(labels)
