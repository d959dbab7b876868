"""Sweeps: the same rows however they are carried out, and nothing lost when something is killed."""

import importlib.util
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path

import hoistway as hw

# Whoever starts the tests in the background lets them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

SMALL = dict(
    experiment="latency-2019",
    configs="none,mq-deadline{fifo_batch=1,writes_starved=3}",
    drives=["plextor-px-256m5s", "samsung-970-pro"],
    workloads="readers",
    seeds=range(1, 5),
    duration="50ms",
)


def have(*modules):
    """Skips with the reason where a module is missing."""
    missing = [m for m in modules if importlib.util.find_spec(m) is None]
    return unittest.skipIf(missing, f"the module {', '.join(missing)} is not installed")


def kill_at(count, pids):
    """A progress function that kills the first of pids() when so many cells are over, and the list of whom it killed."""
    killed = []

    def progress(part, done, total):
        if done >= count and not killed:
            killed.append(pids()[0])
            os.kill(killed[0], signal.SIGKILL)

    return progress, killed


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)


class Grids(unittest.TestCase):
    def test_order_and_names(self):
        grid = hw.grid(**SMALL)
        self.assertEqual(len(grid), 16)
        found = [(c.drive, c.config, c.seed) for c in grid]
        self.assertEqual(found[0], ("plextor-px-256m5s", "none", 1))
        self.assertEqual(found[5], ("plextor-px-256m5s", "mq-deadline{fifo_batch=1,writes_starved=3}", 2))
        self.assertEqual([c.reps for c in grid], [1] * 16)
        self.assertEqual(len(grid[:3] + grid[3:]), 16)

    def test_what_is_left_out_is_the_experiments(self):
        mine = hw.Experiment.load("latency-2019")
        grid = hw.grid(mine)
        self.assertEqual(len(grid), len(mine.drives) * len(mine.workloads) * len(mine.configs))
        self.assertEqual(grid[0].reps, mine.reps)

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "is there twice"):
            hw.grid(**SMALL) + hw.grid(**SMALL)
        with self.assertRaisesRegex(ValueError, "seeds 1 and 2 with reps = 2 overlap"):
            hw.grid(**{**SMALL, "reps": 2})
        with self.assertRaisesRegex(ValueError, "no experiment 'latency-219'"):
            hw.grid("latency-219")


@have("pyarrow")
class Single(Folder):
    def test_rows_are_those_of_compare(self):
        import pyarrow as pa

        result = hw.sweep(SMALL, self.folder)
        whole = hw.compare(
            SMALL["experiment"], ["none"], drives=SMALL["drives"][1], workloads="readers", seed=3, reps=1, duration="50ms"
        )
        expected = [{**row, "seed": 3} for row in whole.metrics.rows()]
        rows = [r for r in result.table.to_pylist() if r["drive"] == SMALL["drives"][1] and r["config"] == "none" and r["seed"] == 3]
        self.assertEqual(rows, expected)
        self.assertEqual((result.ran, result.reused, len(result.parts)), (16, 0, 16))
        self.assertGreater(result.cpu_s, 0)
        self.assertEqual(pa.table(result), result.table)
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(os.path.basename(p) for p in result.parts))

    def test_what_is_there_is_not_run_again(self):
        told = []
        first = hw.sweep(SMALL, self.folder)
        again = hw.sweep(SMALL, self.folder, progress=lambda *p: told.append(p))
        self.assertEqual((again.ran, again.reused, told), (0, 16, [(1.0, 16, 16)]))
        os.remove(first.parts[5])
        # Half a file, and a file that is another cell's.
        Path(first.parts[6]).write_bytes(Path(first.parts[6]).read_bytes()[:-100])
        shutil.copy(first.parts[8], first.parts[7])
        again = hw.sweep(SMALL, self.folder)
        self.assertEqual((again.ran, again.reused), (3, 13))
        self.assertEqual(again.table, first.table)

    def test_a_damaged_page_is_noticed(self):
        from hoistway import _sweeps as sweeps

        first = hw.sweep(hw.grid(**SMALL)[:1], self.folder)
        (part,) = first.parts
        whole = Path(part).read_bytes()
        key = os.path.basename(part)[: -len(".parquet")].rpartition("-")[2]
        self.assertEqual(sweeps.read(part, key), first.table)
        noticed = 0
        for at in range(0, len(whole), 101):
            Path(part).write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
            table = sweeps.read(part, key)
            noticed += table is None
            # Some bytes say nothing about the rows.
            self.assertTrue(table is None or table == first.table, at)
        self.assertGreater(noticed, 10)

    def test_parts_serve_larger_grids(self):
        hw.sweep({**SMALL, "seeds": [3, 4]}, self.folder)
        larger = hw.sweep(SMALL, self.folder)
        self.assertEqual((larger.ran, larger.reused), (8, 8))
        fresh = hw.sweep(SMALL, self.folder / "fresh")
        self.assertEqual(larger.table, fresh.table)

    def test_the_key_has_what_decides_the_rows(self):
        from hoistway._sweeps import key_of

        drive = self.folder / "mine.toml"
        drive.write_text("1")
        groups = self.folder / "groups"
        groups.mkdir()
        (groups / "io.max").write_text("1")
        cell = hw.grid(**{**SMALL, "drives": [str(drive)], "groups": groups})[0]
        keys = {key_of(cell)}
        for other in (dict(seed=9), dict(reps=2), dict(duration="51ms"), dict(quick=True), dict(wbt=True), dict(config="bfq")):
            keys.add(key_of(cell._replace(**other)))
        text = cell.experiment.toml
        keys.add(key_of(cell._replace(experiment=hw.Experiment.from_toml(text + "\n", "latency-2019.toml"))))
        drive.write_text("2")
        keys.add(key_of(cell))
        (groups / "io.max").write_text("2")
        keys.add(key_of(cell))
        self.assertEqual(len(keys), 10)
        self.assertEqual(key_of(pickle.loads(pickle.dumps(cell))), key_of(cell))

    def test_mistakes_are_told_before_anything_runs(self):
        for wrong, text in [
            (dict(configs=["none", "bqf"]), "config=bqf seed=1: no configuration 'bqf'"),
            (dict(drives=["plextor-px-256m5s", "plextr"]), "no drive 'plextr'"),
            (dict(seeds=[1, -2]), ""),
            (dict(duration="25h"), "--duration: 25h"),
        ]:
            with self.assertRaisesRegex((ValueError, OverflowError), text):
                hw.sweep({**SMALL, **wrong}, self.folder)
        with self.assertRaisesRegex(TypeError, "has no submit"):
            hw.sweep(SMALL, self.folder, executor="dusk")
        with self.assertRaisesRegex(ValueError, "workers: 0"):
            hw.sweep(SMALL, self.folder, workers=0)
        self.assertEqual(os.listdir(self.folder), [])


class Fifo:
    """First in, first out."""

    def __init__(self):
        self.waiting = []

    def insert(self, now, request):
        self.waiting.append(request.id)

    def dispatch(self, now):
        return self.waiting.pop(0) if self.waiting else None

    def gone(self, now, id):
        self.waiting.remove(id)


@have("pyarrow")
class Classes(Folder):
    def test_a_class_is_not_swept(self):
        hw.scheduler("swept-fifo")(Fifo)
        for config in ("swept-fifo", "none-swept-fifo"):
            with self.assertRaisesRegex(ValueError, "scheduler 'swept-fifo' is a class"):
                hw.sweep({**SMALL, "configs": ["none", config]}, self.folder)


class Now:
    """An executor without a pool: a task runs when its result is asked for."""

    def __init__(self, before=lambda number: None):
        self.before, self.number = before, 0

    def submit(self, function, argument):
        self.number += 1
        number = self.number

        class Future:
            def result(_):
                self.before(number)
                return function(*pickle.loads(pickle.dumps([argument])))

        return Future()


@have("pyarrow")
class Failures(Folder):
    def test_a_cell_that_fails_is_named_after_the_others(self):
        def before(number):
            if number == 3:
                raise ConnectionError("the machine is gone")

        with self.assertRaises(hw.SweepError) as caught:
            hw.sweep(SMALL, self.folder, executor=Now(before))
        self.assertRegex(
            str(caught.exception),
            "1 of 16 cells failed(.|\n)*drive=plextor-px-256m5s workload=readers config=none seed=3: ConnectionError: the machine",
        )
        ((cell, reason),) = caught.exception.failed
        self.assertEqual((cell.seed, cell.config), (3, "none"))
        again = hw.sweep(SMALL, self.folder)
        self.assertEqual((again.ran, again.reused), (1, 15))

    def test_a_file_that_changes_under_way_fails_its_cells(self):
        text = a_drive()
        drive = self.folder / "mine.toml"
        drive.write_text(text)
        change = {2: lambda: drive.write_text(text + "\n# changed\n")}
        with self.assertRaisesRegex(hw.SweepError, "3 of 4 cells failed(.|\n)*the file of the drive or of the groups is not the same"):
            hw.sweep(
                {**SMALL, "drives": [str(drive)], "configs": "none"},
                self.folder / "parts",
                executor=Now(lambda n: change.get(n, lambda: None)()),
            )

    def test_another_build_is_refused(self):
        from hoistway import _sweeps as sweeps

        cell = hw.grid(**SMALL)[0]
        _, _, reason = sweeps.work((cell, sweeps.key_of(cell), str(self.folder / "part-000000-0.parquet"), "other", ""))
        self.assertIn("another build", reason)


def a_drive():
    """A drive file: one of the repository's."""
    here = Path(__file__).parents[2]
    for path in [*here.glob("drives/plextor-px-256m5s.toml"), *here.glob("crates/*/drives/plextor-px-256m5s.toml")]:
        return path.read_text()
    raise unittest.SkipTest("the drive files are not part of the package")


@have("pyarrow")
class Executors(Folder):
    def setUp(self):
        super().setUp()
        self.one = hw.sweep(SMALL, self.folder / "one").table

    def same(self, result):
        self.assertEqual(result.table, self.one)
        self.assertEqual([f for f in os.listdir(os.path.dirname(result.parts[0])) if f.endswith(".tmp")], [])

    def test_processes_of_which_one_is_killed(self):
        import multiprocessing

        progress, killed = kill_at(4, lambda: [p.pid for p in multiprocessing.active_children()])
        self.same(hw.sweep(SMALL, self.folder / "two", workers=2, progress=progress))
        self.assertEqual(len(killed), 1)

    def test_a_task_that_kills_its_process_fails_alone(self):
        from hoistway._executors import opened

        deadly = "__import__('os').kill(__import__('os').getpid(), 9)"
        with opened(workers=2) as outcomes:
            ended = dict(outcomes(eval, ["1 + 1", deadly, "2 + 2", "1 / 0"]))
        self.assertEqual((ended[0], ended[2]), (2, 4))
        self.assertRegex(str(ended[1]), "was killed")
        self.assertIsInstance(ended[3], ZeroDivisionError)

    def test_a_pool_of_the_callers(self):
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(2) as pool:
            self.same(hw.sweep(SMALL, self.folder / "two", executor=pool))

    def test_futures_that_have_no_more_than_a_result(self):
        self.same(hw.sweep(SMALL, self.folder / "two", executor=Now()))

    @have("distributed")
    def test_dask_of_which_a_worker_is_killed(self):
        from distributed import Client, LocalCluster

        options = dict(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50)
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            progress, killed = kill_at(4, lambda: list(client.run(os.getpid).values()))
            self.same(hw.sweep(SMALL, self.folder / "two", executor=client, progress=progress))
            self.assertEqual(len(killed), 1)
            part = sorted(os.listdir(self.folder / "two"))[9]
            os.remove(self.folder / "two" / part)
            again = hw.sweep(SMALL, self.folder / "two", executor=client)
            self.same(again)
            self.assertEqual(again.ran, 1)

    @have("distributed")
    def test_dask_by_its_name(self):
        self.same(hw.sweep(SMALL, self.folder / "two", executor="dask"))

    @have("ray")
    def test_ray_by_the_adapter_of_the_guide(self):
        import ray

        guide = Path(__file__).parents[2] / "docs/guide/many-machines.md"
        if not guide.exists():
            self.skipTest("the guide is not part of the package")
        names = {"ray": ray}
        text = guide.read_text()
        exec(textwrap.dedent(text[text.index("class OnRay") : text.index("ray.init(")]), names)
        path = os.pathsep.join(p for p in sys.path if p)
        ray.init(
            num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error", runtime_env={"env_vars": {"PYTHONPATH": path}}
        )
        try:
            self.same(hw.sweep(SMALL, self.folder / "two", executor=names["OnRay"]()))
        finally:
            ray.shutdown()


@have("pyarrow")
class Guide(Folder):
    def setUp(self):
        super().setUp()
        guide = Path(__file__).parents[2] / "docs/guide/many-machines.md"
        if not guide.exists():
            self.skipTest("the guide is not part of the package")
        self.blocks = re.findall(r"^```(\w+)\n(.*?)^```", guide.read_text(), re.MULTILINE | re.DOTALL)

    def test_the_sweep_runs(self):
        first = next(text for kind, text in self.blocks if kind == "python")
        names, before = {}, os.getcwd()
        try:
            os.chdir(self.folder)
            exec(first, names)
        finally:
            os.chdir(before)
        self.assertEqual((names["swept"].ran, len(os.listdir(self.folder / "sweep.parquet"))), (12, 12))

    def test_the_files_can_be_read(self):
        scripts = [text for kind, text in self.blocks if kind == "sh"]
        self.assertEqual(len(scripts), 2)
        for script in scripts:
            self.assertEqual(subprocess.run(["sh", "-n", "-c", script]).returncode, 0)
        (job,) = (text for kind, text in self.blocks if kind == "yaml")
        if importlib.util.find_spec("yaml") is None:
            self.skipTest("the module yaml is not installed")
        import yaml

        spec = yaml.safe_load(job)["spec"]
        self.assertEqual((spec["completionMode"], spec["completions"]), ("Indexed", 16))
        (container,) = spec["template"]["spec"]["containers"]
        self.assertTrue(container["command"][-1].endswith("/16"))
        names = [mount["name"] for mount in container["volumeMounts"]]
        self.assertEqual(names, [volume["name"] for volume in spec["template"]["spec"]["volumes"]])


SCRIPT = """
import sys
import hoistway as hw
def main():
    workers = int(sys.argv[2]) or None
    hw.sweep(dict(experiment="latency-2019", workloads="readers", configs="none", seeds=range(1, 10_001)), sys.argv[1], workers=workers)
if __name__ == "__main__":
    main()
"""


@have("pyarrow")
class Interrupted(Folder):
    def ended_by(self, number, workers):
        script = self.folder / "script.py"
        script.write_text(SCRIPT)
        parts = self.folder / f"parts-{number}-{workers}"
        child = subprocess.Popen([sys.executable, script, parts, str(workers)], stderr=subprocess.PIPE, text=True)
        try:
            until = time.monotonic() + 120
            while len(list(parts.glob("part-*.parquet"))) < 3:
                self.assertIsNone(child.poll(), "it runs")
                self.assertLess(time.monotonic(), until, "parts appear")
                time.sleep(0.05)
            child.send_signal(number)
            _, said = child.communicate(timeout=120)
        finally:
            child.kill()
            child.wait()
        kept = len(list(parts.glob("part-*.parquet")))
        self.assertLess(kept, 10_000)
        again = hw.sweep(dict(experiment="latency-2019", workloads="readers", configs="none", seeds=range(1, 5)), parts)
        self.assertGreaterEqual(again.reused, min(kept, 3) if not workers else 1)
        fresh = hw.sweep(dict(experiment="latency-2019", workloads="readers", configs="none", seeds=range(1, 5)), self.folder / "fresh")
        self.assertEqual(again.table, fresh.table)
        return said

    def test_ctrl_c_keeps_the_parts(self):
        for workers in (0, 2):
            self.assertIn("KeyboardInterrupt", self.ended_by(signal.SIGINT, workers))

    def test_kill_keeps_the_parts(self):
        self.ended_by(signal.SIGKILL, 0)


if __name__ == "__main__":
    unittest.main()
