"""Results: tables, run directories, the report."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import hoistway as hw


def small(**more):
    """Two configurations, two repetitions of a short run."""
    given = dict(drives="plextor-px-256m5s", workloads="readers", reps=2, duration="200ms")
    return hw.compare("latency-2019", ["none", "bfq"], **{**given, **more})


def module(name):
    """A module, or a skipped test."""
    try:
        return __import__(name)
    except ImportError:
        raise unittest.SkipTest(f"{name} is not there (pip install {name})") from None


class Tables(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.result = small()

    def test_metrics_have_the_columns_of_the_file(self):
        head, *lines = self.result.csv().splitlines()
        table = self.result.metrics
        self.assertEqual(table.column_names, head.split(","))
        self.assertEqual(len(table), len(lines))
        self.assertEqual(set(table["config"]), {"none", "bfq"})
        self.assertEqual(set(table["rep"]), {None, 1, 2})
        row = next(r for r in table.rows() if r["metric"] == "latency_avg" and r["rep"] is None)
        self.assertEqual((row["unit"], row["source"], row["bound"]), ("ms", "sim", ""))
        self.assertIn(f",latency_avg,ms,{row['value']:.9g},", self.result.csv())

    def test_histograms_count_what_the_metrics_count(self):
        counted = {}
        for row in self.result.histograms.rows():
            self.assertLessEqual(row["low_ns"], row["high_ns"])
            if row["target"]:
                cell = (row["config"], row["rep"])
                counted[cell] = counted.get(cell, 0) + row["count"]
        told = {
            (row["config"], row["rep"]): row["value"]
            for row in self.result.metrics.rows()
            if row["metric"] == "samples" and row["rep"] is not None
        }
        self.assertEqual(len(counted), 4)
        self.assertEqual(counted, told)

    def test_series_add_up_to_what_the_device_moved(self):
        result = small(reps=1, duration="2s")
        rows = result.series.rows()
        for row in rows:
            self.assertAlmostEqual(row["mb_s"], row["bytes"] * 1e3 / row["length_ns"])
        told = {
            row["config"]: row["value"]
            for row in result.metrics.rows()
            if row["metric"] == "throughput_total" and row["rep"] == 1
        }
        for config, rate in told.items():
            moved = [r["bytes"] for r in rows if r["config"] == config and r["name"] == "device"]
            self.assertAlmostEqual(sum(moved) / 2e6, rate)
        self.assertTrue(any(r["name"] == "proc:reader14" and r["bytes"] for r in rows))

    def test_runs_have_seeds_and_digests(self):
        runs = self.result.runs
        self.assertEqual(runs["seed"], [1, 2, 1, 2])
        self.assertEqual(len(set(runs["digest"])), 4)
        self.assertEqual(small().runs["digest"], runs["digest"])
        self.assertEqual(small(jobs=1).csv(), self.result.csv())

    def test_marks_and_gauges(self):
        result = hw.run(
            "startup-s", "bfq", drives="samsung-970-pro", reps=1, quick=True,
            workloads=hw.Experiment.load("startup-s").workloads[0],
        )
        self.assertIn("start", result.marks["text"])
        self.assertEqual(len(result.monitor), 0)
        gauges = small(workloads="readers", reps=1, wbt=True).monitor
        self.assertIn("wbt", gauges["stage"])
        self.assertTrue(any(t < 0 for t in gauges["t_ns"]) or min(gauges["t_ns"]) >= 0)

    def test_unknown_columns_are_named(self):
        with self.assertRaisesRegex(KeyError, "no column 'x'; there are: experiment, drive"):
            self.result.metrics["x"]


class Readers(unittest.TestCase):
    """Programs that take the tables."""

    @classmethod
    def setUpClass(cls):
        cls.result = small()

    def tables(self):
        r = self.result
        return [r.metrics, r.series, r.histograms, r.marks, r.monitor, r.runs, hw.drives()]

    def test_pyarrow(self):
        pa = module("pyarrow")
        for table in self.tables():
            taken = pa.table(table)
            taken.validate(full=True)
            self.assertEqual(taken.column_names, table.column_names)
            self.assertEqual(taken.to_pylist(), table.rows())

    def test_without_a_copy(self):
        pa = module("pyarrow")
        one, two = (pa.table(self.result_metrics) for _ in range(2))
        address = lambda t: t["value"].chunk(0).buffers()[1].address
        self.assertEqual(address(one), address(two))

    @property
    def result_metrics(self):
        self.kept = getattr(self, "kept", None) or self.result.metrics
        return self.kept

    def test_polars(self):
        pl = module("polars")
        for table in self.tables():
            taken = pl.DataFrame(table)
            self.assertEqual(taken.height, len(table))
            self.assertEqual(taken.columns, table.column_names)
        metrics = pl.DataFrame(self.result.metrics)
        self.assertEqual(metrics["value"].to_list(), self.result.metrics["value"])

    def test_pandas(self):
        pd = module("pandas")
        if not hasattr(pd.DataFrame, "from_arrow"):
            self.skipTest("this pandas does not read Arrow's stream itself (from version 3 on)")
        module("pyarrow")
        taken = pd.DataFrame.from_arrow(self.result.metrics)
        self.assertEqual(list(taken.columns), self.result.metrics.column_names)
        self.assertEqual(list(taken["config"]), self.result.metrics["config"])

    def test_duckdb(self):
        duckdb = module("duckdb")
        metrics = self.result.metrics
        asked = duckdb.sql("select count(*), count(distinct config) from metrics").fetchall()
        self.assertEqual(asked, [(len(metrics), 2)])

    def test_a_stream_that_nobody_reads_is_freed(self):
        for _ in range(1000):
            self.result.metrics.__arrow_c_stream__()


class Directories(unittest.TestCase):
    def test_saved_and_loaded_again(self):
        result = small()
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder, "a", "run")
            result.save(place)
            back = hw.load(place)
            self.assertEqual(back.csv(), result.csv())
            self.assertEqual(back.command, result.command)
            self.assertEqual(back.runs.rows(), result.runs.rows())
            # An older run is replaced, a file of somebody stays.
            Path(place, "mine.txt").write_text("x")
            back.save(str(place))
            self.assertEqual(Path(place, "mine.txt").read_text(), "x")
            self.assertEqual(Path(place, "report.html").read_text(), result.html())

    def test_what_is_in_the_way_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "theirs").write_text("x")
            with self.assertRaisesRegex(ValueError, "theirs|hoistway did not write"):
                small(reps=1).save(folder)
            self.assertEqual(os.listdir(folder), ["theirs"])
            with self.assertRaisesRegex(FileNotFoundError, "run.toml"):
                hw.load(folder)

    def same_as_the_command(self, result, *words):
        program = os.environ.get("HOISTWAY", "")
        if not os.access(program, os.X_OK):
            self.skipTest("the command line is not built (cargo build -p hoistway-cli)")
        with tempfile.TemporaryDirectory() as folder:
            command = [program, *words, "--quiet", "--out", Path(folder, "cli")]
            subprocess.run(command, check=True, capture_output=True)
            result.save(Path(folder, "python"))
            files = lambda name: {
                p.relative_to(Path(folder, name)): p.read_bytes()
                for p in Path(folder, name).rglob("*") if p.is_file()
            }
            ours, theirs = files("python"), files("cli")
            self.assertEqual(sorted(ours), sorted(theirs))
            for name, content in theirs.items():
                self.assertTrue(ours[name] == content, f"{name} differs")
            self.assertGreaterEqual(len(theirs), 9)

    def test_compare_writes_what_the_command_writes(self):
        self.same_as_the_command(
            small(faults=["pause_every_ms=100", "pause_ms=20"], seed=3),
            *"compare latency-2019 -c none,bfq -d plextor-px-256m5s -w readers --reps 2 --seed 3".split(),
            *"--duration 200ms --faults pause_every_ms=100,pause_ms=20".split(),
        )

    def test_a_first_look_writes_what_the_command_writes(self):
        self.same_as_the_command(hw.compare(quick=True, reps=1), "compare", "--quick", "--reps", "1")

    def test_run_writes_what_the_command_writes(self):
        self.same_as_the_command(
            hw.run("latency-2019", "lat-none{target=5ms}", reps=1, quick=True),
            *"run latency-2019 lat-none{target=5ms} --reps 1 --quick".split(),
        )


class Report(unittest.TestCase):
    def test_the_report_is_a_page_in_a_frame(self):
        result = small(reps=1)
        page = result._repr_html_()
        self.assertTrue(page.startswith("<iframe srcdoc=") and page.endswith("</iframe>"))
        self.assertNotIn('"', page.split('srcdoc="')[1].split('" style=')[0])
        self.assertIn("<svg", result.html())
        self.assertIn("|", result.report("markdown"))
        with self.assertRaisesRegex(ValueError, "no format 'pdf'; there are: html, markdown"):
            result.report("pdf")
        self.assertIn("latency-2019: 1 drives x 2 configurations", repr(result))


if __name__ == "__main__":
    unittest.main()
