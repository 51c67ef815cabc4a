"""How samples relate to a model's input: whose order of axes they have, and how they are turned.

One definition serves calibration, training, `verify` and boards: the order of the model file that
a user holds. See `InputOrder`; docs/data.md has the rules as a table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain.data.dataset import Samples, Split
from mcutrain.data.quantize import quantize_input
from mcutrain.data.transform import Transform
from mcutrain.errors import DataError

if TYPE_CHECKING:
    from mcutrain.frontends import Frontend

IMAGE_CHANNELS = (1, 3)
AXIS_NAMES = {2: ("channels", "steps"), 3: ("channels", "height", "width")}
"""Names of the axes of samples with channels first, by their rank."""
Note = Callable[[str], None]


class RawWindows:
    """Raw windows by what an int8 input takes of them, for a board that hears and computes itself.

    Windows of one input are as good as each other: the board makes the same input of both.
    """

    def __init__(self, scale: float, zero_point: int) -> None:
        self.scale, self.zero_point = scale, zero_point
        self._raw: dict[bytes, bytes] = {}
        self._is_closed = False

    def close(self) -> RawWindows:
        """Keep those that there are, and no more."""
        self._is_closed = True
        return self

    def keep(self, raw: Samples, made: Samples, front: Frontend) -> None:
        """Keep windows (n, …), ended by zeros as the front end ends them. made: of them."""
        if self._is_closed:
            return
        for window, code in zip(raw, self.codes(made), strict=True):
            whole = np.zeros(front.input_shape, "<i2")
            whole[: len(window)] = window[: len(whole)]
            self._raw[code.tobytes()] = whole.tobytes()

    def codes(self, made: Samples) -> Samples:
        """The int8 input of what a front end made."""
        return quantize_input(made, scale=self.scale, zero_point=self.zero_point)

    def find(self, codes: bytes) -> bytes | None:
        """Raw samples of which the input becomes `codes`; None if none were kept."""
        return self._raw.get(codes)

    def __len__(self) -> int:
        return len(self._raw)


@dataclass(frozen=True)
class InputOrder:
    """The order of axes in which a model file takes samples, and that of the int8 model's input.

    file: the model file's name, for sentences. shape: of its input, without the batch. axes: these
    axes in the order in which the int8 model's input has them. frontend: what makes samples of raw
    ones, which data sets then may hold instead. kept: where raw windows are kept, if they are. ids:
    how many token ids there are, of a model that takes these; 0 of others.
    """

    file: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    frontend: Frontend | None = None
    kept: RawWindows | None = field(default=None, compare=False)
    ids: int = 0

    def __post_init__(self) -> None:
        if sorted(self.axes) != list(range(len(self.shape))):
            raise DataError(f"{self.axes} is no order of the axes of {self.shape}")

    @staticmethod
    def own(shape: tuple[int, ...], file: str = "the model") -> InputOrder:
        """Return the order of a model that takes its file's samples. shape: without the batch."""
        return InputOrder(file, tuple(shape), tuple(range(len(shape))))

    def with_frontend(self, text: str) -> InputOrder:
        """Return it with the front end that a text or file names; unchanged without one.

        Raises DataError if it does not fit the model, or if the model says another.
        """
        if not text:
            return self
        from mcutrain.frontends import parse  # few models have one

        found = parse(text, self.model_shape)
        if self.frontend not in (None, found):
            raise DataError(
                f"{self.file} is for the front end {self.frontend.text}, and {found.text} is "
                "given: leave out --frontend"
            )
        return replace(self, frontend=found)

    def of_raw(self, x: Samples, key: str = "x") -> Samples:
        """Return what the front end makes of raw samples (n, …): float32 (n, *model_shape).

        Raises DataError for samples that it does not take.
        """
        assert self.frontend is not None, "there is a front end"
        try:
            made = self.frontend.real(x).reshape(len(x), *self.model_shape)
        except DataError as error:
            raise DataError(f"{key}: {error}") from error
        if self.kept is not None:
            self.kept.keep(x, made, self.frontend)
        return made

    def raw_of(self, x: Samples) -> Samples:
        """The raw windows (n, …) of which `of_raw` made these; they are kept.

        Raises DataError for samples of which it made none.
        """
        assert self.frontend is not None
        assert self.kept is not None
        front, found = self.frontend, [self.kept.find(c.tobytes()) for c in self.kept.codes(x)]
        if None in found:
            raise DataError(
                "the training samples are features already, and only raw samples can be shifted in "
                "time or have noise behind them: give these, as the test samples"
            )
        windows = np.frombuffer(b"".join(filter(None, found)), "<i2")
        return windows.reshape(len(x), *front.input_shape).astype(front.input_dtype)

    @property
    def model_shape(self) -> tuple[int, ...]:
        """The shape of the int8 model's input, without the batch."""
        return tuple(self.shape[axis] for axis in self.axes)

    @property
    def is_turned(self) -> bool:
        """Whether the numbers lie in another order; axes of length 1 do not move them."""
        longer = [axis for axis in self.axes if self.shape[axis] > 1]
        return longer != sorted(longer)

    @property
    def is_square(self) -> bool:
        """Whether samples are turned though their lengths do not tell it."""
        return self.is_turned and _lengths(self.shape) == _lengths(self.model_shape)

    @property
    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """What the axes are in the file and in the int8 model; None if they are not known."""
        known = AXIS_NAMES.get(len(self.shape), ())
        if not self.is_turned or self.axes != (*range(1, len(known)), 0):
            return None
        return known, tuple(known[axis] for axis in self.axes)

    @property
    def note(self) -> str:
        """What is said when samples are turned."""
        there, here = self.names or (self.shape, self.model_shape)
        return (
            f"samples are taken in the order of {self.file}: {_text(there)}; they are turned to "
            f"{_text(here)}"
        )

    def is_of_file(self, given: tuple[int, ...]) -> bool:
        """Return whether samples of this shape, without the batch, have the file's order.

        A shape that only the int8 model has means that one. Raises DataError for a shape that may
        mean either.
        """
        if _lengths(given) != _lengths(self.shape):
            return False
        if not self.is_square or _is_shape(given, self.shape):
            return True
        if _is_shape(given, self.model_shape):
            return False
        raise DataError(
            f"samples of {given} may be {self.shape}, as {self.file} has them, or "
            f"{self.model_shape}, as the int8 model does: save them in one of these shapes"
        )

    def turned(self, x: Samples) -> Samples:
        """Samples in the file's order as the int8 model has them, (n, …); a view if that can be."""
        axes = (0, *(1 + axis for axis in self.axes))
        return x.reshape(len(x), *self.shape).transpose(axes)

    @property
    def image(self) -> tuple[int, int, int] | None:
        """The images (height, width, channels) that the model takes; None if it takes none."""
        found = self._image()
        return None if found is None else found[0]

    def of_images(self, x: Samples) -> Samples:
        """Images (n, height, width, channels) that fit `image` as the int8 model has them."""
        found = self._image()
        assert found is not None
        return x.transpose(0, *(1 + axis for axis in found[1])).reshape(len(x), *self.model_shape)

    def _image(self) -> tuple[tuple[int, int, int], tuple[int, ...]] | None:
        """Height, width and channels, and these axes in the int8 model's order."""
        model, shape = self.model_shape, self.shape
        if len(model) == 3 and model[2] in IMAGE_CHANNELS:
            return (model[0], model[1], model[2]), (0, 1, 2)
        if len(shape) == 2:
            return (shape[0], shape[1], 1), (*self.axes, 2)
        if len(shape) == 3 and shape[2] in IMAGE_CHANNELS:
            return (shape[0], shape[1], shape[2]), self.axes
        if len(shape) == 3 and shape[0] in IMAGE_CHANNELS:
            return (shape[1], shape[2], shape[0]), tuple((axis - 1) % 3 for axis in self.axes)
        return None


def is_same_shape(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether only axes of length 1 differ: the values lie in the same order then.

    So a window (time, channels) is the image (1, time, channels) that a model over time takes.
    """
    return _lengths(shape) == _lengths(other)


def in_order(x: Samples, order: InputOrder, note: Note = lambda _: None) -> Samples:
    """Samples (n, …) as a user has them in the order of the int8 model.

    Those of the file's shape are turned as the file's input was. Others are arranged, see
    `arranged`; images of uint8 of another size are made to fit where the model takes images in
    another form than (height, width, channels). note: called with what is turned. Raises DataError
    where two orders remain.
    """
    if order.is_turned and order.is_of_file(x.shape[1:]):
        note(order.note)
        return order.turned(x)
    shape, image = order.model_shape, order.image
    is_pixels = x.dtype == np.uint8 and x.ndim == 4 and image is not None
    if is_pixels and image != shape and not is_same_shape(x.shape[1:], shape):
        assert image is not None
        return order.of_images(Transform(*image).fit(arranged(x, image)))
    found = arranged(x, shape)
    if found is not x:
        given = _lengths(x.shape[1:])
        note(f"samples {given} are turned to {(*given[1:], given[0])}, channels last")
    return found


def split_in_order(split: Split, order: InputOrder, note: Note = lambda _: None) -> Split:
    """Return the split with all parts in that order; each note is made once."""
    said: list[str] = []

    def once(text: str) -> None:
        if text not in said:
            said.append(text)
            note(text)

    return split.each(
        lambda part: (
            part
            if part.is_in_order
            else replace(part, x=in_order(part.x, order, once), is_in_order=True)
        )
    )


def arranged(x: Samples, shape: tuple[int, ...]) -> Samples:
    """Samples (n, …) with their channels last, as a model that takes `shape` wants them.

    Windows (n, channels, time) become (n, time, channels), and images (n, channels, height, width)
    become (n, height, width, channels), where only that makes them fit. To fit, lengths must be the
    input's; uint8 images may have any height and width, since they are resized. Whatever fits
    already, or in no order, comes back as it is; a square is taken to be in the right order.
    """
    given, wanted = _lengths(x.shape[1:]), _lengths(shape)
    if given == wanted:
        return x
    if x.dtype == np.uint8 and len(shape) == 3 and min(shape[:2]) > 1 and x.ndim == 4:
        channels, last = x.shape[1], x.shape[3]
        is_first = channels == shape[2] or channels in IMAGE_CHANNELS
        is_last = last == shape[2] or last in IMAGE_CHANNELS
        return np.moveaxis(x, 1, -1) if is_first and not is_last else x
    if len(given) > 1 and (*given[1:], given[0]) == wanted:
        return np.moveaxis(x.reshape(len(x), *given), 1, -1)
    return x


def _is_shape(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether it is that shape; data sets put a channel axis behind (n, height, width)."""
    return given in (shape, (*shape, 1))


def _lengths(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def _text(axes: tuple[object, ...]) -> str:
    return f"({', '.join(map(str, axes))})"
