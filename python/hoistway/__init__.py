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
