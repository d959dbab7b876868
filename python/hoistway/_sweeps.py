"""Sweeps: a task is a cell with its repetitions, and writes one Parquet part. Parts that exist are not run again."""

import contextlib
import functools
import hashlib
import json
import os
import secrets
import socket
import time

from . import _hoistway
from ._executors import opened
from ._grids import Grid, ask, class_of, grid, is_path, name_of

# Parts of another format have other keys.
FORMAT = 1
# Seconds that a part may take to be seen on shared storage: a client of NFS looks again after 3 to 60 s.
SEEN_WITHIN = 90


class SweepError(RuntimeError):
    """Cells of a sweep failed. All others have run, and their parts are kept."""

    def __init__(self, message, failed=()):
        super().__init__(message)
        self._failed = list(failed)

    @property
    def failed(self):
        """Cells that failed: (cell, reason)."""
        return self._failed


class Sweep:
    """What sweep returns. A table library takes it as it takes table."""

    def __init__(self, table, parts, ran, reused, cpu_s):
        self._table, self._parts, self._ran, self._reused, self._cpu_s = table, parts, ran, reused, cpu_s

    @property
    def table(self):
        """pyarrow.Table: the metrics of all cells in the order of the grid, with a column seed: that of the cell's first
        repetition."""
        return self._table

    @property
    def parts(self):
        """Paths of the parts, in the order of the grid."""
        return self._parts

    @property
    def ran(self):
        """Number of cells that this call ran."""
        return self._ran

    @property
    def reused(self):
        """Number of cells whose part was there."""
        return self._reused

    @property
    def cpu_s(self):
        """CPU seconds of the processes that ran cells while they did."""
        return self._cpu_s

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self):
        return f"<hoistway.Sweep: {self._table.num_rows} rows of {len(self._parts)} cells, {self._ran} run, {self._reused} there>"


def sweep(grid_or_arguments, directory, *, executor=None, workers=None, progress=None):
    """Runs the cells of a grid that have no part in directory yet, each as one task, and returns the rows of all of them.

    grid_or_arguments: a Grid, or a dictionary of the arguments of grid().
    directory: for parts, one Parquet file a cell. Workers on other machines need it under the same path.
    executor: what has submit(function, argument) and returns a future with result(): a pool of concurrent.futures or
    mpi4py.futures, a Dask client, submitit's executor. "dask": a local cluster of two workers. None: this process, one cell
    after another, or as many processes as workers says. Results do not depend on it.
    progress: called with (part of the cells from 0 to 1, cells over, cells in all).

    A part has a key of everything that decides its rows: the text of the experiment, the files of drive and groups, version
    and build of this module. It appears as a whole: whoever is killed leaves no half of it. Ctrl-C keeps the parts.

    A script that uses workers= or "dask" needs `if __name__ == "__main__":` around the call.
    Needs pyarrow. ValueError: a cell is wrong, before anything runs, or its scheduler is a class. SweepError: cells failed; the others have run.
    """
    need_pyarrow()
    cells = grid_or_arguments if isinstance(grid_or_arguments, Grid) else grid(**grid_or_arguments)
    cells.check()
    if name := next(filter(None, map(class_of, cells)), None):
        raise ValueError(f"scheduler '{name}' is a class: a part could not tell what code it is from; compare runs it")
    directory = os.path.abspath(os.fspath(directory))
    os.makedirs(directory, exist_ok=True)
    keys = [key_of(cell) for cell in cells]
    there = found(directory)
    tables, paths, tasks = {}, {}, []
    for index, (cell, key) in enumerate(zip(cells, keys)):
        paths[index] = there.get(key) or os.path.join(directory, f"part-{index:06d}-{key}.parquet")
        tables[index] = read(paths[index], key) if key in there else None
        if tables[index] is None:
            tasks.append((index, (cell, key, paths[index], build(), secrets.token_hex(4))))
    spent, failed = collect(cells, keys, tables, paths, tasks, executor, workers, progress)
    clean(directory, keys)
    if failed:
        raise error_of(failed, len(cells), directory)
    import pyarrow

    table = pyarrow.concat_tables([tables[index] for index in range(len(cells))]).combine_chunks()
    return Sweep(table, [paths[i] for i in range(len(cells))], len(tasks), len(cells) - len(tasks), spent)


def collect(cells, keys, tables, paths, tasks, executor, workers, progress):
    """Has the tasks carried out and reads their parts. CPU seconds, and (cell, reason) of those that failed."""
    tell = progress or (lambda part, done, total: None)
    done, total, spent, failed = len(cells) - len(tasks), len(cells), 0.0, []
    tell(done / max(total, 1), done, total)
    if not tasks:
        return spent, failed
    with opened(executor, workers) as outcomes, contextlib.closing(outcomes(work, [t for _, t in tasks])) as ended:
        for at, outcome in ended:
            index = tasks[at][0]
            if isinstance(outcome, Exception):
                outcome = 0.0, "", f"{type(outcome).__name__}: {outcome}"
            seconds, host, reason = outcome
            spent += seconds
            if reason is None:
                tables[index] = wait_for(paths[index], keys[index])
            if reason is None and tables[index] is None:
                reason = (
                    f"it ran on {host}, but {paths[index]} is not to be seen here; "
                    "the directory must be on storage that all workers share"
                )
            if reason is not None:
                failed.append((index, reason))
            done += 1
            tell(done / total, done, total)
    return spent, [(cells[index], reason) for index, reason in sorted(failed)]


def work(task):
    """One task, wherever it runs: (CPU seconds, host, None or why there is no part)."""
    cell, key, path, expected, _ = task
    before = time.process_time()
    reason = None
    try:
        if build() != expected:
            raise RuntimeError("another build of hoistway is installed there; install the same one on all machines")
        if key_of(cell) != key:
            raise RuntimeError("the file of the drive or of the groups is not the same there")
        # A worker may have been killed after it had written the part.
        if read(path, key) is None:
            write(table_of(cell), key, path)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # A panic of the compiled part is no Exception.
        reason = f"{type(error).__name__}: {error}"
    return time.process_time() - before, socket.gethostname(), reason


def table_of(cell):
    """The metrics of a cell: texts as texts, since dictionaries differ from cell to cell."""
    import warnings

    import pyarrow as pa

    with warnings.catch_warnings():
        # They were told when the grid was checked.
        warnings.simplefilter("ignore")
        table = pa.table(ask(cell, jobs=1).metrics)
    columns = {}
    for field in table.schema:
        column = table[field.name]
        columns[field.name] = column.cast(pa.string()) if pa.types.is_dictionary(field.type) else column
        if field.name == "workload":
            columns["seed"] = pa.array([cell.seed] * table.num_rows, pa.uint64())
    return pa.table(columns)


def write(table, key, path):
    """The part appears as a whole, and stays when the machine stops."""
    import pyarrow.parquet as pq

    folder, name = os.path.split(path)
    new = os.path.join(folder, f".{name}.{secrets.token_hex(8)}.tmp")
    table = table.replace_schema_metadata({"hoistway": stamp(table, key)})
    try:
        with open(new, "xb") as file:
            pq.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        if os.path.exists(new):
            os.remove(new)
        raise
    sync(folder)


def sync(folder):
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(at)
    finally:
        os.close(at)


def read(path, key):
    """The table of a part; None if there is no such file, or if it is damaged or of another cell."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open(path, "rb") as file:
            # Without the threads that reading far larger files needs.
            table = pq.ParquetFile(pa.BufferReader(file.read()), pre_buffer=False).read(use_threads=False)
        stamped = (table.schema.metadata or {}).get(b"hoistway", b"").decode(errors="replace")
        # What is damaged is no text in places.
        return table.replace_schema_metadata(None) if stamped == stamp(table, key) else None
    except (OSError, UnicodeDecodeError, pa.ArrowException):
        return None


def stamp(table, key):
    """Of a part: its key, and a digest of its rows, as checksums of Parquet leave out the headers of pages."""
    return f"{key} {hashlib.sha256(repr(table.to_pydict()).encode()).hexdigest()}"


def wait_for(path, key):
    """A part that was written elsewhere: shared storage may show it later."""
    until = time.monotonic() + SEEN_WITHIN
    while (table := read(path, key)) is None and time.monotonic() < until:
        # A new file is looked for in a list of the directory that is not the cached one.
        os.listdir(os.path.dirname(path))
        time.sleep(0.2)
    return table


def found(directory):
    """Parts in a directory by their keys, whatever place in a grid they were made for."""
    there = {}
    for name in sorted(os.listdir(directory)):
        if name.startswith("part-") and name.endswith(".parquet"):
            there[name[: -len(".parquet")].rpartition("-")[2]] = os.path.join(directory, name)
    return there


def clean(directory, keys):
    """Takes away what killed workers left of parts that are there now."""
    there = found(directory)
    for name in os.listdir(directory):
        if name.startswith(".part-") and name.endswith(".tmp"):
            key = name.partition(".parquet.")[0].rpartition("-")[2]
            if key in there and key in keys:
                # Somebody else may clean, too.
                try:
                    os.remove(os.path.join(directory, name))
                except FileNotFoundError:
                    pass


def key_of(cell):
    """Digest of everything that decides the rows of a cell."""
    deciding = {
        **cell._asdict(),
        "format": FORMAT,
        "version": _hoistway.__version__,
        "build": build(),
        "experiment": [cell.experiment.id, cell.experiment.toml],
        "drive": [os.path.basename(cell.drive), digest(cell.drive) if is_path(cell.drive) else None],
        "groups": cell.groups and digest(cell.groups),
    }
    return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:24]


def digest(path):
    """Of a file, or of all files of a directory with their names."""
    if os.path.isdir(path):
        inside = [os.path.join(at, name) for at, _, names in os.walk(path) for name in names]
        each = [(os.path.relpath(name, path), digest(name)) for name in inside]
        return hashlib.sha256(repr(sorted(each)).encode()).hexdigest()
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


@functools.cache
def build():
    """Digest of the compiled part."""
    return digest(_hoistway.__file__)


def need_pyarrow():
    try:
        import pyarrow.parquet
    except ImportError:
        raise ImportError("sweep writes Parquet, which needs pyarrow: pip install pyarrow") from None


def error_of(failed, total, directory):
    shown = [f"  {name_of(cell)}: {reason}" for cell, reason in failed[:10]]
    if len(failed) > len(shown):
        shown.append(f"  and {len(failed) - len(shown)} more")
    head = f"{len(failed)} of {total} cells failed; the parts of the others are in {directory}, and the same call runs these alone:"
    return SweepError("\n".join([head, *shown]), failed)
