"""Data sets of images, and their batches.

>>> import neurim as nm, numpy as np
>>> images = np.zeros((40, 8, 8, 3), np.uint8)
>>> data = nm.data.arrays(images, [0, 1] * 20)
>>> data.class_names, len(data), data.size("val")
(['0', '1'], 36, 4)
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from . import _core
from ._core import DataError, Tensor, UsageError
from .arrays import _readable, column_array, columns_of, is_dictionary, is_table
from .labels import _KINDS, _checked_names, _classes_of, _label, _labels_of, _missing, _names_of, _numbers_of
from .options import _checked, _words, of_data, size_of
from .tensors import tensor

class Data:
    """A labelled set of images in splits: train, val and test. `len` and numbers are those of train.

    Options that were given to the function that made it, such as imgsz, resize or mixup, are those of `fit` unless it is given others.
    """

    def __init__(self, core: Any, path: str, options: dict[str, Any]) -> None:
        self._core, self.path, self.options = core, path, _checked(options)

    @property
    def class_names(self) -> list[str]:
        """In the order of the labels."""
        return list(self._core.class_names)

    @property
    def classes(self) -> int:
        """How many there are."""
        return len(self._core.class_names)

    @property
    def notes(self) -> list[str]:
        """What a user should know about the data, one line each."""
        return list(self._core.notes)

    @property
    def train(self) -> Part:
        """The samples to train on."""
        return Part(self, "train")

    @property
    def val(self) -> Part:
        """The samples to validate on."""
        return Part(self, "val")

    @property
    def test(self) -> Part:
        """The samples of the test split."""
        return Part(self, "test")

    def size(self, split: str = "train") -> int:
        """Samples of a split."""
        return int(self._core.size(split))

    def __len__(self) -> int:
        return self.size()

    def name(self, sample: int, split: str = "train") -> str:
        """The path of the file, or file and position in it."""
        return str(self._core.name(split, sample))

    @property
    def regression(self) -> bool:
        """Whether samples have numbers instead of classes; class_names are what these are called then."""
        return bool(self._core.regression)

    def label(self, sample: int, split: str = "train") -> int:
        """The class of a sample."""
        return int(self._core.label(split, sample))

    def numbers(self, sample: int, split: str = "train") -> list[float]:
        """The numbers of a sample, for regression; none where it has classes."""
        return list(self._core.numbers(split, sample))

    def loader(
        self,
        batch: int = 32,
        *,
        split: str = "train",
        imgsz: int | tuple[int, int] | str | None = None,
        channels: int | None = None,
        shuffle: bool | None = None,
        drop_last: bool = False,
        workers: int = 2,
        resize: str = "auto",
        mean: Sequence[float] = (0.0,),
        std: Sequence[float] = (1.0,),
        seed: int = 42,
    ) -> Loader:
        """Batches of (images f32 (N,C,H,W), labels i64 (N)); an epoch at each iteration.

        Labels of multi-label data are f32 (N,classes), of regression the numbers f32 (N,targets).

        Pixels are scaled to [0, 1], then (x - mean) / std. `imgsz`: a number, (height, width) or a text such as "192x320"; needed
        unless the images lie in memory in one size.
        `shuffle`: by default of train.
        """
        size = self._core.image_size
        imgsz = imgsz if imgsz is not None else self.options.get("imgsz")
        asked = None if imgsz is None else size_of(imgsz, "loader")
        if asked is None and size is None:
            raise UsageError("loader: the images may have any size; give imgsz, to which they are brought")
        height, width = asked or (size[0], size[1])
        channels = channels or (size[2] if size else 3)
        shuffled = split == "train" if shuffle is None else shuffle
        core = _core.Batches(
            self._core, split, channels, height, width, list(mean), list(std), resize, batch, workers, shuffled, drop_last, seed
        )
        return Loader(core)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{self.size(split)} {split}" for split in ("train", "val", "test") if self.size(split))
        answers = ", ".join(self.class_names) if self.regression else f"{self.classes} classes"
        return f"Data({self.path!r}: {answers}, {sizes})"


class Part(Sequence[tuple[str, Any]]):
    """One split of data, as pairs of a sample's name and its label: a class, a list of classes, or a list of numbers."""

    def __init__(self, data: Data, split: str) -> None:
        self.data, self.split = data, split

    def loader(self, batch: int = 32, **options: Any) -> Loader:
        """Its batches; see Data.loader."""
        return self.data.loader(batch, split=self.split, **options)

    def __len__(self) -> int:
        return self.data.size(self.split)

    def __getitem__(self, sample: Any) -> Any:
        if isinstance(sample, slice):
            return [self[one] for one in range(*sample.indices(len(self)))]
        if not -len(self) <= sample < len(self):
            raise IndexError(f"{self.split} has {len(self)} samples")
        place = sample % len(self)
        return self.data.name(place, self.split), self._label(place)

    def _label(self, place: int) -> Any:
        if self.data.regression:
            return self.data.numbers(place, self.split)
        names = [self.data.class_names[one] for one in self.data._core.classes(self.split, place)]
        return names if self.data._core.multi_label else names[0]

    def __repr__(self) -> str:
        return f"Part({self.data.path!r}, {self.split}: {len(self)} samples)"


_open: weakref.WeakSet[Loader] = weakref.WeakSet()


@atexit.register
def _close() -> None:
    """The threads of loaders may be in code of Python, which has to be there."""
    for loader in list(_open):
        loader._core.close()


class Loader:
    """Batches of one split. Each iteration is an epoch, with an order of its own where it is shuffled."""

    def __init__(self, core: Any) -> None:
        self._core, self._epoch = core, 0
        _open.add(self)

    def __len__(self) -> int:
        return int(self._core.size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        self._epoch += 1
        epoch = self._epoch
        self._core.start(epoch - 1)
        while (batch := self._core.next()) is not None:
            yield batch
            if epoch != self._epoch:
                raise UsageError("loader: another iteration has begun, which ends this one; make a loader for each")


def open(path: str | os.PathLike[str], *, class_names: Sequence[str] | None = None, **options: Any) -> Data:
    """Whatever `neurim train data=` takes: a folder of images, a table, shards, packed files, arrays, IDX, CIFAR, LMDB, TFRecord.

    `class_names`: in the order of their numbers, where that is not by name; all that the data have. `target`: columns of
    numbers to learn, such as "age" or "x,y": regression.
    Throws DataError with cause and fix where there is nothing to train on.
    """
    words, names = _words(of_data(options)), _checked_names(class_names or [], "open: class_names")
    return Data(_core.Dataset.open(os.fspath(path), words, names), os.fspath(path), options)


folder = open
csv = open


def table(source: Any, columns: Sequence[str] | None = None) -> dict[str, Tensor]:
    """Columns of numbers by name: tensors (rows), of lists of a fixed size (rows, size).

    `source`: what exports an Arrow table (pyarrow, Polars, DuckDB, …), a frame of pandas, a dictionary of arrays, or the
    path of a .parquet or .csv file, for which pyarrow is imported. `columns`: only these, in this order. A column in one
    chunk shares its memory, read-only: who changes a frame of pandas in place changes its tensors.

    Throws UsageError, with the name of the column, for nulls and for what is not numbers, and DataError for a file that
    cannot be read.

    >>> import neurim as nm
    >>> nm.data.table({"size": [1.0, 2.0], "rooms": [3, 4]}, columns=["rooms"])
    {'rooms': Tensor([3, 4], dtype=i64)}
    """
    if isinstance(source, (str, os.PathLike)):
        source = _read_table(os.fspath(source), columns)
    if not (is_dictionary(source) or is_table(source)):
        raise UsageError(f"table: takes a table with columns, a dictionary or a path, not a {type(source).__name__}")
    is_tabular, found = columns_of(source, columns)
    if not is_tabular:
        raise UsageError("table: this is a single column; nm.tensor(x) makes a tensor of it")
    known = [title for title, _, _ in found]
    if len(set(known)) < len(known):
        raise UsageError(f"table: there are several columns '{max(known, key=known.count)}'; give each a name of its own")
    for title in columns or ():
        if title not in known:
            near = get_close_matches(title, known, 1)
            raise UsageError(f"table: there is no column '{title}'" + (f"; did you mean '{near[0]}'?" if near else ""))
    values = {title: (value, fault) for title, value, fault in found}
    return {title: _column(title, *values[title]) for title in (known if columns is None else columns)}


def _column(title: str, values: Any, fault: str) -> Tensor:
    if isinstance(values, Tensor):
        return values
    if fault or hasattr(values, "dtype"):
        return _core.tensor_from(column_array(values, fault, f"column '{title}'", "table"), True, True)
    return tensor(values)


def _read_table(path: str, columns: Sequence[str] | None) -> Any:
    """The file as a table of pyarrow. Of a .parquet file only the columns that are asked for are read."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in (".parquet", ".csv"):
        raise UsageError(f"table: {path} is no .parquet or .csv file; give a table that another library has read")
    try:
        import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]
        import pyarrow.csv  # type: ignore[import-not-found, import-untyped, unused-ignore]
        import pyarrow.parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise UsageError(f"table: reading {path} needs pyarrow, which is not installed; run pip install pyarrow") from None
    try:
        if suffix == ".csv":
            return pyarrow.csv.read_csv(path)
        known = pyarrow.parquet.read_schema(path).names
        return pyarrow.parquet.read_table(path, columns=None if columns is None else [one for one in known if one in columns])
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"table: {path} cannot be read: {str(error).splitlines()[0]}") from None


def arrays(
    images: Any,
    labels: Any,
    *,
    class_names: Sequence[str] | None = None,
    target_names: Sequence[str] | None = None,
    val: tuple[Any, Any] | None = None,
    test: tuple[Any, Any] | None = None,
    **options: Any,
) -> Data:
    """Images u8 or u16 (N,H,W) or (N,H,W,C), and labels: whole numbers from 0 on, or names.

    Labels that are floating numbers (N) or (N,targets), or whole ones beside `target_names`, are learnt as numbers: regression.

    `val`, `test`: the same of these splits; without `val` a tenth of each class is taken from training (val_split).
    """
    import numpy as np

    for name, part in (("val", val), ("test", test)):
        if part is not None:
            check_pair(part, f"arrays: {name}")
    parts = [("train", images, labels)] + [(name, *part) for name, part in (("val", val), ("test", test)) if part is not None]
    pixels = [_pixels_of(part[1], part[0]) for part in parts]
    owners = np.concatenate([np.full(len(one), i) for i, one in enumerate(pixels)])
    starts = np.cumsum([0] + [len(one) for one in pixels])
    size = pixels[0].shape[1:]
    alike = all(one.shape[1:] == size and one.dtype == pixels[0].dtype for one in pixels)
    shape = (size[0], size[1], size[2] if len(size) == 3 else 1, pixels[0].dtype.itemsize * 8) if alike else ()

    def get(item: int) -> Any:
        owner = owners[item]
        return np.ascontiguousarray(pixels[owner][item - starts[owner]])

    splits = [part[0] for part, one in zip(parts, pixels, strict=True) for _ in range(len(one))]
    return _from_python(get, [(part[0], part[2]) for part in parts], splits, class_names, target_names, shape, "arrays", options)


def check_pair(part: Any, called: str) -> None:
    """Throws UsageError for what is no pair of images and labels."""
    if not isinstance(part, (tuple, list)) or len(part) != 2:
        has = f"{len(part)} elements" if isinstance(part, (tuple, list)) else f"of type {type(part).__name__}"
        raise UsageError(f"{called} is {has}; give a pair (images, labels)")


def is_channels_first(shape: tuple[int, ...]) -> bool:
    """Whether an image of this shape can only be (C,H,W)."""
    most_channels = 4
    return len(shape) == 3 and shape[0] in (1, 3, most_channels) and shape[2] > most_channels


def _pixels_of(images: Any, split: str) -> Any:
    import numpy as np

    try:
        pixels = np.asarray(_readable(images, "images"))
    except (TypeError, ValueError) as error:
        if "inhomogeneous" not in str(error):
            raise UsageError(f"arrays: the images of {split} are no array: {str(error).splitlines()[0]}") from None
        pixels = np.empty(len(images), object)
    if pixels.ndim == 1 and pixels.dtype.kind == "O":
        raise UsageError(f"arrays: the images of {split} differ in size or are no arrays; nm.data.samples(list(zip(images, labels))) takes images of any size")
    right = pixels.ndim in (3, 4) and pixels.dtype in (np.uint8, np.uint16)
    if pixels.ndim > 0 and len(pixels) == 0 and (split == "train" or not right):
        raise UsageError(f"arrays: there are no images in {split}")
    if not right:
        fix = "; pixels are scaled to [0, 1] in training, so give them as they were" if pixels.dtype.kind == "f" else ""
        raise UsageError(f"arrays: images have to be uint8 or uint16 of (N,H,W) or (N,H,W,C), not {pixels.dtype} of {pixels.shape}{fix}")
    if is_channels_first(pixels.shape[1:]):
        raise UsageError(f"arrays: the images are {pixels.shape}, which looks like (N,C,H,W); give (N,H,W,C): images.transpose(0, 2, 3, 1)")
    return pixels


def samples(
    train: Any,
    *,
    val: Any = None,
    test: Any = None,
    class_names: Sequence[str] | None = None,
    target_names: Sequence[str] | None = None,
    **options: Any,
) -> Data:
    """Data sets of Python: objects with `__len__` and `__getitem__` that gives (image, label), as torch's; also lists of such pairs.

    An image is an array u8 (H,W) or (H,W,C), or an image of Pillow. All labels are read at once, images when they are needed.
    Labels that are floating numbers, or lists or arrays of them, are learnt as numbers, as those of `arrays`. Whole numbers are
    named by the `classes` of the data set, where it has such a list of texts and changes no labels.
    """
    import numpy as np

    parts = [("train", train)] + [(name, part) for name, part in (("val", val), ("test", test)) if part is not None]
    for name, part in parts:
        if (why := _no_samples(part)) is not None:
            raise UsageError(f"samples: {name} is {why}")
    places = [(part, i) for _, part in parts for i in range(len(part))]
    splits = [name for name, part in parts for _ in range(len(part))]
    if len(train) == 0:
        raise UsageError("samples: there are no images in train")
    labels = [(name, [_label(part, i, name) for i in range(len(part))]) for name, part in parts]
    known = [_classes_of(part) for _, part in parts]
    if class_names is None and any(one is not None and known[0] is not None and one != known[0] for one in known):
        raise UsageError("samples: the splits have different classes; make them of the same ones, or give class_names")

    def get(item: int) -> Any:
        part, i = places[item]
        image = np.asarray(part[i][0])
        if is_channels_first(image.shape) and image.dtype in (np.uint8, np.uint16):
            raise UsageError(f"it is {image.shape}, which looks like (C,H,W); give (H,W,C): image.transpose(1, 2, 0)")
        return np.ascontiguousarray(image)

    return _from_python(get, labels, splits, class_names, target_names, (), "samples", options, known[0])


def gives_batches(data: Any) -> str | None:
    """What to give instead of something that gives batches; None for all else."""
    if isinstance(data, Loader):
        return "a Loader, which gives batches; give the Data that it is of"
    if any(one.__name__ == "DataLoader" and one.__module__.startswith("torch.") for one in type(data).__mro__):
        return "a DataLoader, which gives batches; give its data set: nm.data.samples(loader.dataset)"
    return None


def _no_samples(part: Any) -> str | None:
    """Why something is no data set of Python, and what to give instead; None where it is one."""
    if (why := gives_batches(part)) is not None:
        return why
    if isinstance(part, Data):
        return "a Data, which is ready for fit"
    if hasattr(part, "shape") and (hasattr(part, "dtype") or hasattr(part, "iloc")):
        return f"an array {tuple(part.shape)}; images and labels in arrays are nm.data.arrays(images, labels)"
    if isinstance(part, (str, bytes, dict)) or not (hasattr(part, "__len__") and hasattr(part, "__getitem__")):
        return f"a {type(part).__name__}; give an object with __len__ and __getitem__ that gives (image, label), such as a list of pairs"
    return None


def _from_python(
    get: Any,
    parts: list[tuple[str, Any]],
    splits: list[str],
    class_names: Sequence[str] | None,
    target_names: Sequence[str] | None,
    shape: tuple[int, ...],
    called: str,
    options: dict[str, Any],
    known: list[str] | None = None,
) -> Data:
    """Of the labels of each split: classes, or numbers to learn. `known`: names of classes that the data set has."""
    import numpy as np

    read = [(split, _labels_of(given, split, called)) for split, given in parts]
    count = sum(len(labels) for _, labels in read)
    if count != len(splits):
        raise UsageError(f"{called}: there are {len(splits)} images and {count} labels")
    for split, labels in read:
        if len(labels) != splits.count(split):
            raise UsageError(f"{called}: there are {splits.count(split)} images and {len(labels)} labels in {split}")
    first: dict[type, str] = {}  # where each kind of label is met first
    gap: tuple[str, Any] | None = None
    for split, labels in read:
        for i, one in enumerate(labels):
            kind = type(one) if type(one) in (int, str) else float
            if kind is float and gap is None and np.ndim(one) == 0 and one != one:
                gap = f"label {i} of {split}", one
            elif kind not in first:
                first[kind] = f"label {i} of {split}"
            if isinstance(labels, np.ndarray):
                break  # all are alike, and gaps in them have an error of their own
    if gap is not None and first.keys() & {int, str}:
        raise _missing(f"{called}: {gap[0]}", gap[1])
    if target_names is not None and str in first:
        raise UsageError(f"{called}: target_names says that numbers are learnt, and labels are names ({first[str]})")
    if len(first) > 1 and target_names is None:
        (a, where), (b, there), *_ = first.items()
        raise UsageError(f"{called}: labels are {_KINDS[a]} ({where}) and {_KINDS[b]} ({there}); give all of them as one kind")
    if target_names is not None or float in first or (gap is not None and not first):
        if class_names is not None:
            raise UsageError(f"{called}: floating numbers and those with target_names are learnt as numbers, which have no class_names; give whole numbers or names for classes")
        return _from_numbers(get, [_numbers_of(labels, called) for _, labels in read], splits, target_names, shape, called, options)
    return _from_samples(get, read, splits, class_names, known, shape, called, options)


def _from_samples(
    get: Any,
    parts: list[tuple[str, list[Any]]],
    splits: list[str],
    class_names: Sequence[str] | None,
    known: list[str] | None,
    shape: tuple[int, ...],
    called: str,
    options: dict[str, Any],
) -> Data:
    if "classes" in options:
        raise UsageError(f"{called}: classes is an option of data on disk; give class_names")
    words = [one for _, labels in parts for one in labels]
    whole = bool(words) and isinstance(words[0], int)
    if whole and min(words) < 0:
        split, i, number = next((split, i, one) for split, labels in parts for i, one in enumerate(labels) if one < 0)
        raise UsageError(f"{called}: label {i} of {split} is {number}; classes are numbered from 0 on")
    if class_names is not None:
        names = _checked_names(class_names, f"{called}: class_names")
    else:
        names = known if whole and known is not None and len(known) > max(words) else _names_of(words, called)
    places = {name: i for i, name in enumerate(names)}
    numbers = words if whole else [places.get(one, -1) for one in words]
    for number, word in zip(numbers, words, strict=True):
        if not 0 <= number < len(names):
            raise UsageError(f"{called}: label {word!r} is none of the {len(names)} classes")
    given = _words(of_data(options))
    core = _core.Dataset.from_source(get, numbers, names, splits, list(shape), given, called, [])
    return Data(core, called, options)


def _from_numbers(
    get: Any, parts: list[Any], splits: list[str], names: Sequence[str] | None, shape: tuple[int, ...], called: str, options: dict[str, Any]
) -> Data:
    """Regression: the numbers of each sample, (N) or (N,targets) of each split."""
    import numpy as np

    targets = {one.shape[1:] for one in parts}
    if len(targets) != 1 or len(next(iter(targets))) > 1 or any(one.dtype.kind not in "fiu" for one in parts):
        raise UsageError(f"{called}: numbers to learn are (N) or (N,targets), as many in each split, not {[one.shape for one in parts]}")
    numbers = np.concatenate([one.reshape(len(one), -1) for one in parts]).astype(np.float32)
    if not np.isfinite(numbers).all():
        raise UsageError(f"{called}: label {int((~np.isfinite(numbers)).any(axis=1).argmax())} is no finite number; correct it, or leave the image out")
    width = numbers.shape[1]
    known = _checked_names(names, f"{called}: target_names") if names is not None else ["target"] if width == 1 else [f"target_{i}" for i in range(width)]
    if len(known) != width:
        raise UsageError(f"{called}: target_names has {len(known)} names for {width} numbers of each image")
    given = _words(of_data(options))
    core = _core.Dataset.from_source(get, [0] * len(splits), known, splits, list(shape), given, called, numbers.reshape(-1).tolist())
    return Data(core, called, options)
