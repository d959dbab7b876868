"""Types of hoistway. What things do stands in their docstrings: help(hoistway.compare)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

__version__: str

Names = str | Sequence[str]
"""Names, or one text with commas between them."""
Progress = Callable[[float, int, int], object]
"""Part of the simulated time from 0 to 1, runs that are over, runs in all."""

class Table:
    """Columns in Arrow's layout, behind the PyCapsule interface."""

    @property
    def num_rows(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    def rows(self) -> list[dict[str, Any]]: ...
    def __getitem__(self, name: str, /) -> list[Any]: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

class Result:
    """A run directory in memory. Times are in ns, rates in 10^6 bytes per second."""

    @property
    def metrics(self) -> Table:
        """experiment, drive, config, workload, metric, unit, value, rep, source, bound."""
    @property
    def series(self) -> Table:
        """experiment, drive, config, workload, rep, seed, name, t_ns, length_ns, bytes, ios, mb_s."""
    @property
    def histograms(self) -> Table:
        """experiment, drive, config, workload, rep, seed, process, target, low_ns, high_ns, count."""
    @property
    def marks(self) -> Table:
        """experiment, drive, config, workload, rep, seed, process, text, t_ns, moved_bytes."""
    @property
    def monitor(self) -> Table:
        """experiment, drive, config, workload, rep, seed, stage, name, group, unit, t_ns, value."""
    @property
    def runs(self) -> Table:
        """experiment, drive, config, workload, rep, seed, measured_ns, digest."""
    @property
    def warnings(self) -> list[tuple[str, str]]: ...
    @property
    def experiment(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def command(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def reps(self) -> int: ...
    @property
    def drives(self) -> list[str]: ...
    @property
    def configs(self) -> list[str]: ...
    @property
    def workloads(self) -> list[str]: ...
    def save(self, directory: str | PathLike[str]) -> None: ...
    def html(self) -> str: ...
    def report(self, format: str) -> str: ...
    def csv(self) -> str: ...
    def _repr_html_(self) -> str: ...

class Experiment:
    """The text of an experiment file, checked."""

    def __init__(
        self,
        id: str,
        *,
        workloads: Mapping[str, Sequence[Mapping[str, Any]] | Mapping[str, Any]],
        target: Mapping[str, Any] | None = None,
        **keys: Any,
    ) -> None: ...
    @staticmethod
    def load(name: str) -> Experiment: ...
    @staticmethod
    def from_toml(text: str, label: str = "experiment.toml") -> Experiment: ...
    @property
    def toml(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def drives(self) -> list[str]: ...
    @property
    def configs(self) -> list[str]: ...
    @property
    def workloads(self) -> list[str]: ...
    @property
    def all_workloads(self) -> list[tuple[str, str]]: ...
    @property
    def reps(self) -> int: ...

class Request:
    """A request that waits for a decision, as it was when the scheduler was told of it."""

    @property
    def id(self) -> int: ...
    @property
    def process(self) -> int: ...
    @property
    def op(self) -> str: ...
    @property
    def sync(self) -> bool: ...
    @property
    def sector(self) -> int: ...
    @property
    def sectors(self) -> int: ...
    @property
    def io_class(self) -> str: ...
    @property
    def level(self) -> int: ...
    @property
    def requeued(self) -> bool: ...

class Process(dict[str, Any]):
    """The keys of one process, or of several alike; 15 * process is the same with count = 15."""

    def __mul__(self, count: int) -> Process: ...
    def __rmul__(self, count: int) -> Process: ...

def process(load: str, **keys: Any) -> Process: ...
def reader(**keys: Any) -> Process: ...
def writer(**keys: Any) -> Process: ...
def compare(
    experiment: str | PathLike[str] | Experiment | None = None,
    configs: Names | None = None,
    *,
    drives: Names | None = None,
    workloads: Names | None = None,
    faults: Names | None = None,
    reps: int | None = None,
    seed: int = 1,
    duration: str | None = None,
    quick: bool = False,
    wbt: bool = False,
    groups: str | PathLike[str] | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Result: ...
def run(
    experiment: str | PathLike[str] | Experiment,
    config: str | None = None,
    *,
    drives: Names | None = None,
    workloads: Names | None = None,
    faults: Names | None = None,
    reps: int | None = None,
    seed: int = 1,
    duration: str | None = None,
    quick: bool = False,
    wbt: bool = False,
    groups: str | PathLike[str] | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Result: ...
def replay(
    trace: str | PathLike[str],
    configs: Names | None = None,
    *,
    drives: Names | None = None,
    closed: bool = False,
    open: bool = False,
    depth: int | None = None,
    speed: float = 1.0,
    split_by: str = "process",
    target: str | None = None,
    devices: Names | None = None,
    start: str | None = None,
    stop: str | None = None,
    limit: int | None = None,
    scale: str | None = None,
    sync_writes: bool = False,
    format: str | None = None,
    strict: bool = False,
    groups: str | PathLike[str] | None = None,
    reps: int = 1,
    seed: int | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Result: ...
def what_if(
    drive: str,
    targets: Mapping[str, str] | Names,
    *,
    load: str | PathLike[str] | Experiment | None = None,
    strict: bool = False,
    loss: int = 3,
    duration: str | None = None,
    seed: int = 1,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]: ...
def bench(
    drive: str,
    *,
    level: str = "quick",
    configs: Names | None = None,
    rounds: int | None = None,
    time: str | None = None,
    goal: str = "desktop",
    out: str | PathLike[str] | None = None,
    fresh: bool = False,
    seed: int = 1,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]: ...
def scheduler(
    name: str,
    *,
    summary: str | None = None,
    tunables: Mapping[str, tuple[int, int, int] | tuple[int, int, int, str]] | None = None,
) -> Callable[[type], type]: ...
def load(directory: str | PathLike[str]) -> Result: ...
def drives() -> Table: ...
def schedulers() -> Table: ...
def settings(scheduler: str | None = None) -> Table: ...
def experiments() -> Table: ...

class Grid(Sequence[Any]):
    """Cells: drives x workloads x configurations x seeds."""

    def __init__(self, cells: Iterable[Any]) -> None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __add__(self, other: Grid) -> Grid: ...
    def check(self) -> None: ...

class Sweep:
    """Rows of all cells of a grid, behind the PyCapsule interface."""

    def __init__(self, table: Any, parts: list[str], ran: int, reused: int, cpu_s: float) -> None: ...
    @property
    def table(self) -> Any: ...
    @property
    def parts(self) -> list[str]: ...
    @property
    def ran(self) -> int: ...
    @property
    def reused(self) -> int: ...
    @property
    def cpu_s(self) -> float: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

class SweepError(RuntimeError):
    """Cells failed; the others have run."""

    def __init__(self, message: str, failed: Sequence[tuple[Any, str]] = ()) -> None: ...
    @property
    def failed(self) -> list[tuple[Any, str]]: ...

class Tuning:
    """The best settings, the frontier, and both on held-out seeds and drives. Tables are pyarrow's."""

    @property
    def config(self) -> str: ...
    @property
    def best(self) -> dict[str, int]: ...
    @property
    def met(self) -> bool: ...
    @property
    def trials(self) -> Any: ...
    @property
    def frontier(self) -> Any: ...
    @property
    def held_out(self) -> Any: ...
    @property
    def distance(self) -> dict[str, float | None]: ...
    @property
    def skipped(self) -> dict[str, str]: ...
    @property
    def space(self) -> list[dict[str, Any]]: ...
    def _repr_html_(self) -> str: ...

def grid(
    experiment: str | PathLike[str] | Experiment,
    configs: Names | None = None,
    *,
    drives: Names | None = None,
    workloads: Names | None = None,
    seeds: int | Iterable[int] = 1,
    reps: int | None = None,
    faults: Names | None = None,
    duration: str | None = None,
    quick: bool = False,
    wbt: bool = False,
    groups: str | PathLike[str] | None = None,
) -> Grid: ...
def sweep(
    grid_or_arguments: Grid | Mapping[str, Any],
    directory: str | PathLike[str],
    *,
    executor: Any = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Sweep: ...
def tune(
    scheduler: str,
    *,
    goal: str = "min latency_p99",
    subject_to: str | Sequence[str] = "throughput_total_ratio >= 0.95",
    experiment: str | PathLike[str] | Experiment = "latency-2019",
    drives: Names | None = None,
    workloads: Names | None = None,
    settings: Sequence[str] | Mapping[str, tuple[int, int] | None] | None = None,
    held_out: int = 5,
    held_out_drives: Names | None = None,
    reference: str = "none",
    trials: int = 60,
    reps: int = 3,
    duration: str | None = None,
    seed: int = 1,
    batch: int = 8,
    storage: str | PathLike[str] | None = None,
    executor: Any = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Tuning: ...
