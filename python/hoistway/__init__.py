"""Linux's I/O schedulers and controllers in a simulator of drives.

compare() and run() carry out experiments; a Result holds what a run directory of the command line holds, as tables that
polars, pandas, pyarrow and DuckDB take without a copy. Guide: docs/guide/python.md.
"""

from ._hoistway import (
    Experiment,
    Result,
    Table,
    __version__,
    compare,
    drives,
    experiments,
    load,
    run,
    schedulers,
    settings,
)
from .processes import Process, process, reader, writer

__all__ = [
    "Experiment",
    "Process",
    "Result",
    "Table",
    "compare",
    "drives",
    "experiments",
    "load",
    "process",
    "reader",
    "run",
    "schedulers",
    "settings",
    "writer",
]
