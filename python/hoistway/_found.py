"""What tune found: held-out figures first, since those of the search flatter what it chose."""

import html
import math

from . import _figures as fig


class Tuning:
    """What tune returns. Figures of the search are those by which it chose: better than what a user will see. held_out has
    the same configurations with seeds and on drives that the search never saw."""

    def __init__(self, cells, axes, skipped, rows, again, about):
        from ._tuning import chosen

        self._cells, self._axes, self._skipped, self._rows, self._again, self._about = cells, axes, skipped, rows, again, about
        self._best, self._at_defaults, _ = chosen(rows, cells)

    @property
    def config(self):
        """The best configuration, as compare takes it: of the trials that met every condition; the nearest where none did."""
        return self._rows[self._best]["config"]

    @property
    def best(self):
        """Its settings, with those that are as by default: name -> value."""
        return dict(self._rows[self._best]["settings"])

    @property
    def met(self):
        """Whether it met every condition in the search; held_out says whether it did there."""
        return self._rows[self._best]["met"]

    @property
    def trials(self):
        """pyarrow.Table, a row a trial: trial, config, goal (of one place its value, else the mean ratio to the defaults), each
        condition's metric (of the worst place), met, and each setting. Missing: not known."""
        return self._table(self._rows)

    @property
    def frontier(self):
        """The rows of trials of which none is better in the goal and no worse in the first condition's metric."""
        known = [row for row in self._rows if row["goal"] is not None and row["figures"][0] is not None]
        points = [(row["goal"], row["figures"][0]) for row in known]
        return self._table([known[i] for i in fig.frontier(points, self._cells.goal, self._cells.conditions[0])])

    @property
    def held_out(self):
        """pyarrow.Table: held (seeds, drives), drive, workload, config, goal, over_defaults with the bounds _low and _high of
        its 99 % interval, each condition's metric with its bounds, met. No bounds: fewer than three seeds, or a run without
        the figure."""
        import pyarrow

        rows = []
        for held, cell, config, (goal, *figures), over in self._again:
            row = dict(held=held, drive=cell.drive, workload=cell.workload, config=config, goal=goal.value)
            row |= bounded("over_defaults", over)
            for condition, figure in zip(self._cells.conditions, figures):
                row |= bounded(condition.metric, figure)
            row["met"] = all(meets(c, f.value) for c, f in zip(self._cells.conditions, figures))
            rows.append(row)
        return pyarrow.Table.from_pylist(rows)

    @property
    def distance(self):
        """How far the defaults are from the frontier: their goal over that of the configuration of the frontier that was no
        worse than they in the first condition's metric (geometric mean of the places), by what it was measured with: search,
        seeds, drives. 1: they are on it. None: with those it is worse than they by more than 3 %, so nothing is known."""
        config = self._rows[self._at_defaults]["config"]
        ours, theirs = self._rows[self._at_defaults]["goal"], self._rows[0]["goal"]
        found = {"search": theirs / ours if ours else None}
        for kind in ("seeds", "drives"):
            held = [(of, figures[1], over.value) for held, _, of, figures, over in self._again if held == kind]
            over = [value for of, _, value in held if of == config]
            pairs = zip([f for of, f, _ in held if of == config], [f for of, f, _ in held if of == self._about["scheduler"]])
            known = over and all(over) and all(self._as_good(*pair) for pair in pairs)
            found[kind] = math.exp(-math.fsum(map(math.log, over)) / len(over)) if known else None
        return found

    def _as_good(self, ours, theirs):
        """Whether a figure of the first condition is no worse than the defaults', as the lab says "same"."""
        if ours.value is None or theirs.value is None:
            return False
        least = self._cells.conditions[0]._replace(limit=theirs.value)
        return fig.lack(least, ours.value) <= 0.03 * abs(theirs.value)

    @property
    def skipped(self):
        """Settings that were not searched: name -> reason."""
        return dict(self._skipped)

    @property
    def space(self):
        """Settings that were searched: dictionaries of name, unit, default, low, high, log (steps are factors)."""
        return [axis._asdict() for axis in self._axes]

    def _table(self, rows):
        import pyarrow

        columns = [c.metric for c in self._cells.conditions]
        flat = [
            dict(trial=r["trial"], config=r["config"], goal=r["goal"], **dict(zip(columns, r["figures"])), met=r["met"], **r["settings"])
            for r in rows
        ]
        return pyarrow.Table.from_pylist(flat)

    def _lines(self):
        cells, about = self._cells, self._about
        conditions = " and ".join(f"{c.metric} {c.relation} {c.limit:g}" for c in cells.conditions)
        yield f"{about['scheduler']}: {cells.goal.sense} {cells.goal.metric}, {conditions}"
        yield f"best of {len(self._rows)} trials: {self.config}" + ("" if self.met else " (none met the conditions; this is the nearest)")
        titles = dict(seeds=f"with {about['held_out']} held-out seeds", drives="on held-out drives, with those seeds")
        told = set()
        usual = {(held, cell.drive, cell.workload): of for held, cell, config, of, _ in self._again if config == about["scheduler"]}
        for held, cell, config, (goal, *figures), over in self._again:
            if config != self.config:
                continue
            if held not in told:
                yield f"{titles[held]}:"
            told.add(held)
            unit = cells.units.get(cells.goal.metric, "")
            words = [f"{cells.goal.metric} {number(goal.value)} {unit}".rstrip() + f", x{spread(over)} of the defaults'"]
            before = usual[held, cell.drive, cell.workload][1:]
            for condition, figure, default in zip(cells.conditions, figures, before):
                words.append(f"{condition.metric} {spread(figure)}, {verdict(condition, figure)}")
                words.append(f"defaults {number(default.value)}, {verdict(condition, default)}")
            yield f"  {cell.drive} {cell.workload}: " + "; ".join(words)
        held = {"search", *(held for held, *_ in self._again)}
        words = ((kind, number(value) if value else "not confirmed") for kind, value in self.distance.items() if kind in held)
        far = ", ".join(f"{kind} {word}" for kind, word in words)
        yield f"defaults over the frontier at their {cells.conditions[0].metric}: {far}"
        row = self._rows[self._best]
        yield f"in the search, which flatters: goal {number(row['goal'])}, {', '.join(map(number, row['figures']))}"
        yield f"searched: {len(self._axes)} settings; left out: {len(self._skipped)} (skipped says why)"

    def __str__(self):
        return "\n".join(self._lines())

    def __repr__(self):
        return f"<hoistway.Tuning of {self._about['scheduler']}: {len(self._rows)} trials, best {self.config}>"

    def _repr_html_(self):
        return f"<pre>{html.escape(str(self))}</pre>"


def bounded(name, figure):
    return {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}


def meets(condition, value):
    return value is not None and fig.lack(condition, value) <= 0


def verdict(condition, figure):
    return "met" if meets(condition, figure.value) else "NOT met"


def number(value):
    return "-" if value is None else f"{value:.3g}"


def spread(figure):
    if figure.low is None:
        return number(figure.value)
    return f"{number(figure.value)} ({number(figure.low)} to {number(figure.high)})"
