"""Grids: drives x workloads x configurations x seeds of an experiment, cell by cell."""

import os
from collections import namedtuple
from collections.abc import Sequence

from . import _hoistway
from ._scheduler import CLASSES

# One cell with all its repetitions: what compare is asked for. drive and groups are absolute where they are paths.
Cell = namedtuple("Cell", "experiment drive config workload seed reps faults duration quick wbt groups")


class Grid(Sequence):
    """Cells in the order in which their rows are merged. Grids can be added; grid() makes one."""

    def __init__(self, cells):
        self._cells = tuple(cells)
        seen = set()
        for cell in self._cells:
            place = (cell.experiment.id, cell.drive, cell.config, cell.workload, cell.seed)
            if place in seen:
                raise ValueError(f"the cell {name_of(cell)} is there twice; rows could not be told apart")
            seen.add(place)

    def __len__(self):
        return len(self._cells)

    def __getitem__(self, index):
        return Grid(self._cells[index]) if isinstance(index, slice) else self._cells[index]

    def __add__(self, other):
        if not isinstance(other, Grid):
            return NotImplemented
        return Grid(self._cells + other._cells)

    def __repr__(self):
        return f"<hoistway.Grid of {len(self)} cells>"

    def check(self):
        """Reads every cell as compare does, without a run. ValueError: the first that is wrong, in compare's words."""
        first = {}
        for cell in self._cells:
            # A seed is right or wrong whatever else the cell has.
            first.setdefault(cell._replace(seed=None), cell)
            first.setdefault(cell.seed, cell)
        for cell in first.values():
            check(cell)


def grid(
    experiment,
    configs=None,
    *,
    drives=None,
    workloads=None,
    seeds=1,
    reps=None,
    faults=None,
    duration=None,
    quick=False,
    wbt=False,
    groups=None,
):
    """The cells of drives x workloads x configs x seeds of an experiment, in that order, for sweep.

    experiment: a name of experiments(), a path, or an Experiment.
    configs, drives, workloads: names; what is left out is the experiment's.
    seeds: a number or several. A cell runs reps repetitions, of which the first has its seed and each other one the next.
    reps [the experiment's; 1 if there are several seeds]. faults, duration, quick, wbt, groups: as for compare, of all cells.

    ValueError: a cell twice, or seeds closer than their repetitions. Names are checked by sweep.
    """
    if not isinstance(experiment, _hoistway.Experiment):
        experiment = _hoistway.Experiment.load(os.fspath(experiment))
    seeds = [seeds] if isinstance(seeds, int) else list(seeds)
    if reps is None:
        reps = experiment.reps if len(seeds) == 1 else 1
    apart(seeds, reps)
    faults = tuple(names(faults, ()))
    groups = None if groups is None else os.path.abspath(os.fspath(groups))
    same = (reps, faults, duration, bool(quick), bool(wbt), groups)
    return Grid(
        Cell(experiment, drive, config, workload, seed, *same)
        for drive in map(absolute, names(drives, experiment.drives))
        for workload in names(workloads, experiment.workloads)
        for config in names(configs, experiment.configs)
        for seed in seeds
    )


def apart(seeds, reps):
    """Seeds of different cells never meet: the same runs would count twice."""
    ordered = sorted(seeds)
    for one, next_one in zip(ordered, ordered[1:]):
        if one < next_one < one + reps:
            raise ValueError(
                f"seeds {one} and {next_one} with reps = {reps} overlap: a repetition takes the next seed; "
                f"give reps=1, or seeds that are {reps} apart"
            )


def names(given, default):
    """A list of names. One text has commas between them, which do not count between braces."""
    if given is None:
        return list(default)
    if not isinstance(given, str):
        return list(given)
    found, start, depth = [], 0, 0
    for at, letter in enumerate(given):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            found.append(given[start:at])
            start = at + 1
    return [name.strip() for name in [*found, given[start:]]]


def is_path(drive):
    """Whether compare would read a file: the rule of the drives."""
    return "/" in drive or drive.endswith(".toml")


def absolute(drive):
    """Another process may have another current directory."""
    return os.path.abspath(drive) if is_path(drive) else drive


def name_of(cell):
    """A cell in one line."""
    return f"{cell.experiment.id} drive={cell.drive} workload={cell.workload} config={cell.config} seed={cell.seed}"


def class_of(cell):
    """The name of the scheduler if it is a class of this process."""
    head = cell.config.partition("{")[0]
    return next((name for name in CLASSES if head == name or head.endswith(f"-{name}")), None)


def ask(cell, jobs):
    """compare of one cell."""
    return _hoistway.compare(
        cell.experiment,
        [cell.config],
        drives=[cell.drive],
        workloads=[cell.workload],
        faults=list(cell.faults) or None,
        reps=cell.reps,
        seed=cell.seed,
        duration=cell.duration,
        quick=cell.quick,
        wbt=cell.wbt,
        groups=cell.groups,
        jobs=jobs,
    )


def check(cell):
    """ValueError where compare would find one."""
    # compare reads everything, then refuses this number of jobs before anything runs.
    try:
        ask(cell, jobs=0)
    except ValueError as error:
        if not str(error).startswith("--jobs: 0"):
            raise ValueError(f"{name_of(cell)}: {error}") from None
