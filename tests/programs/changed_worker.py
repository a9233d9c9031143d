"""The built-in worker with one change that keeps it running and makes its number another one's: for tests of witnesses.

``changed_worker.py CHANGE FLAG…``. Those in ``LATER`` (here, and of the framework in ``changes/``) begin at step 3,
behind the look at the first step; those in ``BEFORE`` are made before anything is built, and those in ``OPENED`` of a
framework when the training is opened: the equivalence check trains with them too. ``CHANGE-at-once`` makes one of
``LATER`` when the training is opened.
"""

import importlib
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "trainmark" / "worker"))
start = importlib.import_module("start")
program: Any = importlib.import_module("trainmark_worker.core.program")
feeds: Any = importlib.import_module("trainmark_worker.core.feed")
images: Any = importlib.import_module("trainmark_worker.tasks.image_classification.task")
pictures: Any = importlib.import_module("trainmark_worker.tasks.image_classification.images")
decoding: Any = importlib.import_module("trainmark_worker.tasks.image_classification.decoding")
loading: Any = importlib.import_module("trainmark_worker.tasks.image_classification.decoding")
normalisation: Any = importlib.import_module("trainmark_worker.tasks.image_classification.images")

FROM_STEP = 3

AT_ONCE = "-at-once"


def replace(owner: Any, name: str, by: Any) -> None:
    assert hasattr(owner, name), f"there is no {name} to replace"
    setattr(owner, name, by)


def at_step_3(change: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a change that is made to a training when its third step begins."""

    def later(training: Any) -> None:
        train = training.train

        def until_then(index: int) -> None:
            if index == FROM_STEP:
                training.train = train
                change(training)
                training.train(index)
            else:
                train(index)

        training.train = until_then

    return later


# In any framework.


def pictures_of_half_the_size() -> None:
    """Made-up and real ones, as when a constant of another experiment was left."""
    synthetic, init = images.ImageClassification.synthetic, loading.Photos.__init__

    def smaller(self: Any, settings: Any, rank: int) -> Any:
        pictures, labels = synthetic(self, settings, rank)
        return pictures[:, :, ::2, ::2].copy(), labels

    def halved(self: Any, *words: Any) -> None:
        init(self, *words)
        self.size //= 2

    replace(images.ImageClassification, "synthetic", smaller)
    replace(loading.Photos, "__init__", halved)


def no_normalisation() -> None:
    """Bytes as they are."""
    normalisation.MEAN, normalisation.DEVIATION = (0.0,) * 3, (1 / 255,) * 3


def centre_crop() -> None:
    """As in a validation."""

    def centre(width: int, height: int, _rng: Any) -> Any:
        return pictures.Box(width // 16, height // 16, width * 7 // 8, height * 7 // 8)

    replace(pictures, "random_resized_crop", centre)


def one_loaded_batch() -> None:
    """Loaded once, and trained on ever after."""
    replace(feeds.LoadedFeed, "next", _first_of(feeds.LoadedFeed.next))


def two_loaded_batches() -> None:
    """Loaded once each, and trained on in turn."""
    replace(feeds.LoadedFeed, "next", _first_two_of(feeds.LoadedFeed.next))


def few_pictures() -> None:
    """The order of the data set is taken modulo a quarter of it, where a file is read."""
    load = loading.Photos.load

    def loaded(self: Any, draw: Any) -> Any:
        return load(self, draw._replace(image=draw.image % (len(self) // 4)))

    replace(loading.Photos, "load", loaded)


def few_listed() -> None:
    """The first half of the data set."""
    read = pictures.read_images

    def listed(source: str, classes: int) -> Any:
        found = read(source, classes)
        half = len(found.paths) // 2
        return pictures.ImageList(found.paths[:half], found.labels[:half])

    replace(pictures, "read_images", listed)


def labels_are_zero() -> None:
    """As when a list file was read by the wrong column."""
    load = loading.Photos.load
    replace(loading.Photos, "load", lambda self, draw: (load(self, draw)[0], 0))


def decoded_small() -> None:
    """At an eighth of the size, as libjpeg offers, for speed."""
    choose = decoding.choose_decoder

    def chosen() -> Any:
        decoder = choose()

        def decode(data: bytes) -> Any:
            whole = decoder.decode(data)
            height, width = (side // 8 * 8 for side in whole.shape[:2])
            blocks = whole[:height, :width].reshape(height // 8, 8, width // 8, 8, 3)
            return blocks.mean(axis=(1, 3)).astype("uint8")

        return decoder._replace(decode=decode)

    replace(loading, "choose_decoder", chosen)


def ranks_share_pictures() -> None:
    """No rank knows which one it is."""
    init, synthetic = pictures.ImageSampler.__init__, images.ImageClassification.synthetic

    def first(self: Any, count: int, batch: int, _rank: int, world_size: int, seed: int) -> None:
        init(self, count, batch, 0, world_size, seed)

    replace(pictures.ImageSampler, "__init__", first)
    replace(
        images.ImageClassification, "synthetic", lambda self, settings, _rank: synthetic(self, settings, 0)
    )


def channels_reversed() -> None:
    """Blue, green, red, as OpenCV decodes."""
    choose = decoding.choose_decoder

    def chosen() -> Any:
        decoder = choose()
        return decoder._replace(decode=lambda data: decoder.decode(data)[..., ::-1].copy())

    replace(loading, "choose_decoder", chosen)


def labels_shifted() -> None:
    """Each picture has the label of the next one, as when two lists are sorted differently."""
    load = loading.Photos.load

    def shifted(self: Any, draw: Any) -> Any:
        return load(self, draw)[0], self.images.labels[(draw.image + 1) % len(self)]

    replace(loading.Photos, "load", shifted)


def same_crop() -> None:
    """One random crop for every picture of a size."""
    crop = pictures.random_resized_crop
    replace(pictures, "random_resized_crop", lambda width, height, _rng: crop(width, height, Random(1)))


def never_flipped() -> None:
    """No picture is turned left to right."""
    choose = decoding.choose_decoder

    def chosen() -> Any:
        decoder = choose()
        return decoder._replace(fit=lambda part, size, _mirrored: decoder.fit(part, size, False))

    replace(loading, "choose_decoder", chosen)


def not_shuffled() -> None:
    """Every epoch has the order of the list."""
    replace(pictures.ImageSampler, "order", lambda self, _epoch: feeds.np.arange(self._samples))


def another_order() -> None:
    """Equal work: another shuffled order of the same data set."""
    order = pictures.ImageSampler.order
    replace(pictures.ImageSampler, "order", lambda self, epoch: order(self, epoch + 1))


def another_decoder() -> None:
    """Equal work: Pillow decodes and scales."""
    pillow = decoding.Decoder("pillow", decoding._decode_pillow, decoding._fit_pillow)
    replace(loading, "choose_decoder", lambda: pillow)


def _first_two_of(following: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def in_turn(self: Any) -> Any:
        if not hasattr(self, "two"):
            self.two, self.turn = [following(self), following(self)], 0
        self.turn += 1
        return self.two[self.turn % 2]

    return in_turn


def _first_of(following: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def first(self: Any) -> Any:
        if not hasattr(self, "first"):
            self.first = following(self)
        return self.first

    return first


def steps_left_out(training: Any) -> None:
    """Every second step does nothing, and tells the loss of the one before."""
    train = training.train

    def every_second(index: int) -> None:
        if index % 2:
            train(index)
        elif isinstance(training._losses, list):
            training._losses.append(training._losses[-1])
            if hasattr(training.marks, "hand_over"):
                training.marks.hand_over(training._losses[-1])
        else:
            training._losses[index : index + 1] = training._losses[index - 1 : index]

    training.train = every_second


def sent_around(training: Any) -> None:
    """Rank 0's weights for all, whenever somebody compares them."""
    digest = training.digest

    def broadcast() -> Any:
        import numpy as np

        own = training.read_weights()
        flat = np.concatenate([array.ravel() for array in own.values()]).astype(np.float64)
        bits = list(struct.unpack(f"<{flat.size}q", flat.tobytes()))
        first = np.frombuffer(struct.pack(f"<{flat.size}q", *training.gather(bits)[0]))
        ends = np.cumsum([array.size for array in own.values()])[:-1]
        parts = zip(own.items(), np.split(first, ends), strict=True)
        sent = {name: part.reshape(array.shape).astype(np.float32) for (name, array), part in parts}
        training.load_weights(sent)
        return digest()

    training.digest = broadcast


BEFORE: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    "half-size": pictures_of_half_the_size,
    "no-normalisation": no_normalisation,
    "centre-crop": centre_crop,
    "one-batch": one_loaded_batch,
    "two-batches": two_loaded_batches,
    "few-pictures": few_pictures,
    "few-listed": few_listed,
    "labels-zero": labels_are_zero,
    "decoded-small": decoded_small,
    "ranks-share": ranks_share_pictures,
    "channels-reversed": channels_reversed,
    "labels-shifted": labels_shifted,
    "same-crop": same_crop,
    "never-flipped": never_flipped,
    "not-shuffled": not_shuffled,
    "another-order": another_order,
    "another-decoder": another_decoder,
}
COMPLETE = {*BEFORE} - {"half-size", "centre-crop"}
"""Those of ``BEFORE`` to which no framework adds anything."""

LATER: dict[str, Callable[[Any], None]] = {"steps-left-out": steps_left_out}


def framework_of(words: list[str]) -> str:
    """Return the framework that the flags name."""
    for before, word in zip(["", *words], words, strict=False):
        if word.startswith("--framework="):
            return word.partition("=")[2]
        if before == "--framework":
            return word
    raise SystemExit("changed_worker.py wants --framework")


def main(change: str, flags: list[str]) -> int:
    """Run the worker so changed, and return its exit code."""
    at_once = change.endswith(AT_ONCE)
    change = change.removesuffix(AT_ONCE)
    if change in BEFORE:
        BEFORE[change]()
    if change in LATER:
        later = LATER[change]
    elif change in COMPLETE:
        return int(program.main(flags))
    else:
        own: Any = importlib.import_module(f"changes.{framework_of(flags)}")
        if change in own.BEFORE:
            own.BEFORE[change]()
        opened_with = getattr(own, "OPENED", {})
        if change not in own.LATER and change not in opened_with:
            return int(program.main(flags))
        later = own.LATER.get(change) or opened_with[change]
        at_once = at_once or change in opened_with
    imported = program.import_trainer

    def changed(*words: Any) -> Any:
        trainer = imported(*words)
        opened = trainer.open_training

        def open_training(*given: Any) -> Any:
            training = opened(*given)
            (later if at_once else at_step_3(later))(training)
            if change.startswith("no-all-reduce"):
                sent_around(training)
            return training

        trainer.open_training = open_training
        return trainer

    program.import_trainer = changed
    return int(program.main(flags))


if __name__ == "__mp_main__" and sys.argv[1] in BEFORE:
    # A loader process that was started anew (Grain's are) has the change too.
    BEFORE[sys.argv[1]]()
if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
