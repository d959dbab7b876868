"""Tasks in this process, in processes of our own, or with whatever has submit(): results as they come."""

import contextlib
import queue
import time

# How often a pool of our own is made anew before each task gets a process for itself.
BREAKS = 2


@contextlib.contextmanager
def opened(executor=None, workers=None):
    """A function outcomes(call, tasks): yields (index, what call(task) returned, or the Exception) of each, as they end.

    executor: None; "dask" for a local cluster of two workers (or as many as workers says) that is closed at the end; or
    anything with submit(function, argument) that returns a future with result(). workers: that many processes.
    If the generator is closed or interrupted, tasks that have not begun are taken back.
    """
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise ValueError(f"workers: {workers!r} is not a number from 1")
    if executor is None and workers is None:
        yield in_turn
    elif executor is None:
        with contextlib.closing(Processes(workers)) as processes:
            yield processes.outcomes
    elif isinstance(executor, str) and executor == "dask":
        with on_dask(workers or 2) as client:
            yield lambda call, tasks: submitted(client, call, tasks)
    elif not callable(getattr(executor, "submit", None)):
        raise TypeError(f'executor: {executor!r} is neither None nor "dask" and has no submit()')
    elif workers is not None:
        raise ValueError("workers cannot be used with an executor of your own; leave one out")
    else:
        yield lambda call, tasks: submitted(executor, call, tasks)


def in_turn(call, tasks):
    for index, task in enumerate(tasks):
        yield index, attempt(call, task)


def attempt(function, *arguments):
    """What it returns, or the Exception it ends with."""
    try:
        return function(*arguments)
    except Exception as error:
        return error


def submitted(executor, call, tasks):
    futures = [executor.submit(call, task) for task in tasks]
    try:
        for index in as_they_end(futures):
            yield index, attempt(futures[index].result)
            futures[index] = None
    finally:
        for future in futures:
            if hasattr(future, "cancel"):
                # One that has begun cannot be taken back everywhere.
                with contextlib.suppress(Exception):
                    future.cancel()


def as_they_end(futures):
    """Indices of futures. Those of concurrent.futures and Dask call back; those of submitit are asked; others in turn."""
    if all(hasattr(f, "add_done_callback") for f in futures):
        ended = queue.SimpleQueue()
        for index, future in enumerate(futures):
            future.add_done_callback(lambda _, index=index: ended.put(index))
        for _ in futures:
            yield ended.get()
    elif all(hasattr(f, "done") for f in futures):
        left, pause = dict(enumerate(futures)), 0.02
        while left:
            over = [index for index, future in left.items() if future.done()]
            for index in over:
                del left[index]
                yield index
            pause = 0.02 if over else min(2 * pause, 1.0)
            if left:
                time.sleep(pause)
    else:
        yield from range(len(futures))


@contextlib.contextmanager
def on_dask(workers):
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise ImportError('executor="dask" needs Dask: pip install "dask[distributed]"') from None
    options = dict(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None)
    # Its profiler looks at each worker a hundred times a second.
    with dask.config.set({"distributed.worker.profile.enabled": False}):
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            yield client


class Processes:
    """Processes of our own. One that is killed takes down its pool (concurrent.futures): the next asks what had not ended."""

    def __init__(self, workers):
        self.workers, self.pool = workers, None

    def outcomes(self, call, tasks):
        left = dict(enumerate(tasks))
        for _ in range(1 + BREAKS):
            if left:
                yield from self.asked(call, left, self.workers)
        # Somebody or something kills again and again: alone, each task tells whether it is the reason.
        for index in list(left):
            self.close()
            yield from self.asked(call, {index: left[index]}, 1)
            if self.pool is None:
                yield index, RuntimeError("the process that ran it was killed")

    def asked(self, call, left, workers):
        """Asks a pool for the tasks of left, and takes away those that ended."""
        from concurrent.futures import ProcessPoolExecutor
        from concurrent.futures.process import BrokenProcessPool
        from multiprocessing import get_context

        if self.pool is None:
            # Not fork: there are threads of polars, Dask and others in this process.
            self.pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=uninterrupted)
        numbers, broken = list(left), False
        try:
            for at, outcome in submitted(self.pool, call, [left[n] for n in numbers]):
                if isinstance(outcome, BrokenProcessPool):
                    broken = True
                    continue
                del left[numbers[at]]
                yield numbers[at], outcome
        except BaseException:
            # Ctrl-C, or the caller wants no more: what runs in the processes has no reader.
            for process in list((self.pool._processes or {}).values()):
                process.terminate()
            raise
        if broken:
            self.pool.shutdown(wait=False)
            self.pool = None

    def close(self):
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)
            self.pool = None


def uninterrupted():
    """In a process of a pool: a terminal's Ctrl-C goes to all of them, and the first process ends the others."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
