"""Linux's I/O schedulers and controllers in a simulator of drives.

compare() and run() carry out experiments; a Result holds what a run directory of the command line holds, as tables that
polars, pandas, pyarrow and DuckDB take without a copy. Guide: docs/guide/python.md.
"""

from ._hoistway import (
    Experiment,
    Request,
    Result,
    Table,
    __version__,
    bench,
    compare,
    drives,
    experiments,
    load,
    replay,
    run,
    schedulers,
    settings,
    what_if,
)
from ._processes import Process, process, reader, writer
from ._scheduler import scheduler

__all__ = [
    "Experiment",
    "Process",
    "Request",
    "Result",
    "Table",
    "bench",
    "compare",
    "drives",
    "experiments",
    "load",
    "process",
    "reader",
    "replay",
    "run",
    "scheduler",
    "schedulers",
    "settings",
    "what_if",
    "writer",
]

# Of modules that are imported when they are first asked for: importing hoistway stays a matter of milliseconds.
_LATER = {
    "Grid": "_grids",
    "Sweep": "_sweeps",
    "SweepError": "_sweeps",
    "Tuning": "_tuning",
    "grid": "_grids",
    "sweep": "_sweeps",
    "tune": "_tuning",
}
__all__ += _LATER


def __getattr__(name):
    if name not in _LATER:
        raise AttributeError(f"module 'hoistway' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module("." + _LATER[name], __name__), name)


def __dir__():
    return sorted({*globals(), *_LATER})
