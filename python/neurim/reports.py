"""What evaluations say: metrics, tables and images, which lie as files in a folder, as `neurim val` writes it."""

from __future__ import annotations

import base64
import csv
import html
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ._core import UsageError


_OF_ANSWERS = ("file", "label", "labels", "predicted")  # columns that are no numbers, whatever classes are called


class Metrics(dict[str, Any]):
    """Metrics by name, which are attributes too: `metrics.top1`."""

    def __getattr__(self, name: str) -> float:
        try:
            return float(self[name])
        except KeyError:
            raise AttributeError(f"there is no metric '{name}'; known are {', '.join(self)}") from None

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{value:.4g}</td></tr>" for name, value in self.items() if isinstance(value, (int, float)))
        return f"<table>{rows}</table>"


class Table(list[dict[str, Any]]):
    """Rows, each a dictionary by the names of its columns. A notebook shows it as a table."""

    @staticmethod
    def read(path: Path, texts: Sequence[str] = ()) -> Table:
        """Of a CSV file; cells that are numbers become such, but in the columns `texts`."""
        with path.open(newline="", encoding="utf-8") as lines:
            return Table({name: cell if name in texts else _value(cell) for name, cell in row.items()} for row in csv.DictReader(lines))

    def frame(self) -> Any:
        """The table as a frame of pandas."""
        return import_module("pandas").DataFrame(self)

    def _repr_html_(self) -> str:
        def row(cells: Sequence[Any], kind: str) -> str:
            return "<tr>" + "".join(f"<{kind}>{html.escape(_shown(one))}</{kind}>" for one in cells) + "</tr>"

        return f"<table>{row(list(self[0]), 'th')}{''.join(row(list(one.values()), 'td') for one in self)}</table>" if self else "<p>none</p>"


class Image:
    """An image in a file, which a notebook shows where it is the last value of a cell."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def show(self) -> None:
        """Displays it in a notebook; elsewhere prints where it lies."""
        if "IPython" in sys.modules and (ipython := import_module("IPython")).get_ipython() is not None:
            ipython.display.display(self)
        else:
            print(self.path)

    def _repr_html_(self) -> str:
        kind = "jpeg" if self.path.suffix == ".jpg" else "png"
        return f'<img src="data:image/{kind};base64,{base64.b64encode(self.path.read_bytes()).decode()}">'

    def __repr__(self) -> str:
        return f"Image({os.fspath(self.path)!r})"


def images_html(folder: Path, *names: str) -> str:
    """Those of these images that are in a folder, for a notebook."""
    return "".join(Image(folder / name)._repr_html_() for name in names if (folder / name).exists())


class ConfusionMatrix:
    """How often which class was predicted for which: `counts[true][predicted]`, classes in the order of class_names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with (folder / "confusion_matrix.csv").open(newline="", encoding="utf-8") as lines:
            header, *rows = csv.reader(lines)
        self.class_names: list[str] = header[1:]
        self.counts: list[list[int]] = [[int(cell) for cell in row[1:]] for row in rows]

    def plot(self, normalized: bool = False) -> Image:
        """The matrix drawn; `normalized`: rows in percent."""
        return Image(self._folder / f"confusion_matrix{'_normalized' if normalized else ''}.png")

    def frame(self) -> Any:
        """A frame of pandas: a row for each true class, a column for each predicted one."""
        return import_module("pandas").DataFrame(self.counts, index=self.class_names, columns=self.class_names)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return import_module("numpy").array(self.counts, dtype)

    def _repr_html_(self) -> str:
        return self.plot()._repr_html_()

    def __repr__(self) -> str:
        return f"ConfusionMatrix({len(self.class_names)} classes, {sum(map(sum, self.counts))} samples)"


class Mistakes(Table):
    """Answers that are wrong, the worst first; a notebook shows them as a table."""

    def __init__(self, rows: Sequence[dict[str, Any]], sheet: Path) -> None:
        super().__init__(rows)
        self._sheet = sheet

    def show(self) -> None:
        """Shows the images of the worst ones, 64 at most. Throws UsageError where there are none."""
        if not self._sheet.exists():
            raise UsageError("show: there are no mistakes")
        Image(self._sheet).show()


class Evaluation(Metrics):
    """Metrics of a split, and the report of them in the folder `path`."""

    def __init__(self, metrics: dict[str, Any], path: str | os.PathLike[str]) -> None:
        super().__init__(metrics)
        self.path = Path(path)

    @property
    def page(self) -> Path:
        """The report as a page for a browser."""
        return self.path / "report.html"

    @property
    def per_class(self) -> Table:
        """Precision, recall, F1 and the number of samples of each class."""
        return Table.read(self._file("per_class.csv"), ["class"])

    @property
    def per_target(self) -> Table:
        """Regression: the errors of each number."""
        return Table.read(self._file("per_target.csv"), ["target"])

    @property
    def predictions(self) -> Table:
        """The answer to each sample, with its label."""
        of_numbers = (self.path / "per_target.csv").exists()
        return Table.read(self._file("predictions.csv"), ["file"] if of_numbers else _OF_ANSWERS)

    @property
    def confusion_matrix(self) -> ConfusionMatrix:
        """Of one class an image. Throws UsageError for other tasks."""
        self._file("confusion_matrix.csv")
        return ConfusionMatrix(self.path)

    def mistakes(self, most: int = 25) -> Mistakes:
        """The wrong answers of the greatest loss. Throws UsageError of regression, whose answers are never quite right."""
        return Mistakes(Table.read(self._file("mistakes.csv"), _OF_ANSWERS)[:most], self.path / "mistakes.jpg")

    @property
    def images(self) -> dict[str, Image]:
        """The charts and sheets of images by name, such as "roc", "reliability", "most_confused"."""
        return {one.stem: Image(one) for one in sorted(self.path.iterdir()) if one.suffix in (".png", ".jpg")}

    def _file(self, name: str) -> Path:
        if not (self.path / name).exists():
            raise UsageError(f"{Path(name).stem}: this evaluation has none; its folder {self.path} has {', '.join(sorted(os.listdir(self.path)))}")
        return self.path / name

    def _repr_html_(self) -> str:
        return super()._repr_html_() + images_html(self.path, "confusion_matrix.png", "predicted_over_true.png")


def _value(cell: str) -> Any:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


def _shown(cell: Any) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
