"""Pictures of results, on matplotlib axes."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional

from ._result import Result, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Width of a picture, and height of one of its bars, in inches.
WIDTH, BAR = 7.0, 0.3

#: Maximum number of bars in a picture; more are not legible.
BARS_MAX = 60


class Plotted(Result[Row]):
    """A result with a picture."""

    def _draw(self, ax: Axes) -> None:
        raise NotImplementedError

    def plot(self, ax: Optional[Axes] = None) -> Axes:
        """Draw the result. Needs matplotlib.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes for the plot; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
            The axes; ``ax.figure`` can be saved.
        """
        if ax is None:
            from matplotlib.figure import Figure

            height = 1.0 + BAR * min(max(len(self.rows), 4), BARS_MAX)
            ax = Figure(figsize=(WIDTH, height), layout="constrained").add_subplot()
        self._draw(ax)
        ax.set_title(self._title(), loc="left", fontsize="medium", parse_math=False, wrap=True)
        return ax

    def _repr_html_(self) -> str:
        try:
            figure: Any = self.plot().figure
        except ImportError:
            return super()._repr_html_()
        file = io.BytesIO()
        figure.savefig(file, format="svg")
        picture = base64.b64encode(file.getvalue()).decode()
        name = f"{type(self).__name__}, {len(self.rows)} rows"
        return f'<img alt="{name}" src="data:image/svg+xml;base64,{picture}">{super()._repr_html_()}'


def bars(
    ax: Axes,
    names: Sequence[str],
    values: Sequence[float],
    label: str,
    *,
    log: bool = False,
    errors: Optional[Sequence[tuple[float, float]]] = None,
) -> None:
    """Horizontal bars, the first one above; `errors` are the smallest and the largest value of each bar."""
    names, values = [_plain(name) for name in names[:BARS_MAX]], list(values[:BARS_MAX])
    places = range(len(names))
    reach = None
    if errors is not None:
        pairs = list(zip(values, errors))
        reach = [[value - low for value, (low, _) in pairs], [high - value for value, (_, high) in pairs]]
    ax.barh(places, values, xerr=reach)
    ax.set_yticks(places, labels=names)
    ax.invert_yaxis()
    if log and any(value > 0 for value in values):
        ax.set_xscale("log")
    ax.set_xlabel(label)


def points(ax: Axes, x: Sequence[float], y: Sequence[float], labels: tuple[str, str]) -> None:
    """Points on logarithmic scales, with the line on which both values are equal."""
    ax.scatter(x, y, s=12)
    least, most = min([*x, *y], default=1.0), max([*x, *y], default=1.0)
    if least > 0:
        ax.set_xscale("log")
        ax.set_yscale("log")
    ax.plot([least, most], [least, most], linewidth=0.8)
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])


def waterfall(ax: Axes, spans: Sequence[tuple[str, str, int, int]]) -> None:
    """Resources over time: spans are resource, phase, start and end in ns."""
    resources = list(dict.fromkeys(resource for resource, *_ in spans))
    phases = sorted({phase for _, phase, *_ in spans})
    for number, phase in enumerate(phases):
        for place, resource in enumerate(resources):
            mine = [(start / 1e3, (end - start) / 1e3) for who, what, start, end in spans if (who, what) == (resource, phase)]
            if mine:
                ax.broken_barh(mine, (place - 0.4, 0.8), color=f"C{number % 10}", label=_plain(phase))
    ax.set_yticks(range(len(resources)), labels=[_plain(name) for name in resources])
    ax.invert_yaxis()
    ax.set_xlabel("us")
    named = dict(zip(ax.get_legend_handles_labels()[1], ax.get_legend_handles_labels()[0]))
    if named:
        # The legend is beside the bars because it would cover some of them.
        ax.legend(list(named.values()), list(named), fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _plain(text: str) -> str:
    """Text in which matplotlib finds no formulas."""
    return text.replace("$", r"\$")
