"""Gives the figures of a report to Python, each as a picture that Jupyter shows and that can be saved."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from bufferlab import output_files
from bufferlab.chapter.elements import Figure
from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.report.document import Report
from bufferlab.report.figures.svg import draw
from bufferlab.report.markdown import figures_of


class Plot:
    """A figure of a report. Jupyter shows it, `svg` is the text of the picture, `save` writes it to a file."""

    def __init__(self, figure: Figure) -> None:
        self._figure = figure

    def __repr__(self) -> str:
        """Return the figure's name and its title."""
        return f"<Plot {self.name}: {self.title}>"

    def _repr_svg_(self) -> str:
        return self.svg

    @property
    def name(self) -> str:
        """Return the name that `Sweep.plot` takes."""
        return self._figure.id

    @property
    def title(self) -> str:
        """Return the figure's title."""
        return self._figure.title

    @property
    def alt(self) -> str:
        """Return the figure in words, for readers who cannot see it."""
        return self._figure.alt

    @property
    def svg(self) -> str:
        """Return the figure as an SVG document on a white background, the same as in the report's file."""
        return draw(self._figure)

    def save(self, path: Path | str) -> Path:
        """Write the figure to a file ending in .svg, and return its path.

        Raises SpecError for another ending, EnvironmentLackingError when the file cannot be written.
        """
        target = Path(path)
        if target.suffix.lower() != ".svg":
            raise SpecError("figures are saved as SVG", str(target), "give a name that ends in .svg")
        try:
            output_files.write(target, lambda file: file.write(self.svg.encode()))
        except OSError as error:
            what = f"the figure cannot be written: {error.strerror}"
            raise EnvironmentLackingError(what, str(target), "choose another path") from error
        return target


def plots_of(report: Report) -> dict[str, Plot]:
    """Return name -> figure of a report, the figure that answers the sweep's question first."""
    return {figure.id: Plot(figure) for figure in figures_of(report)}


def chosen(plots: dict[str, Plot], name: str | None) -> Plot:
    """Return the plot of this name, or the first for None. Raises SpecError if there is none."""
    if not plots:
        raise SpecError("this sweep has no figure", "plot", "a figure needs a point with a good run")
    if name is None:
        return next(iter(plots.values()))
    if name not in plots:
        close = get_close_matches(name, plots, n=1)
        hint = f"did you mean {close[0]}?" if close else f"the figures: {', '.join(plots)}"
        raise SpecError(f'this sweep has no figure "{name}"', f"plot({name!r})", hint)
    return plots[name]
