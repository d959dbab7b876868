"""The notebooks run from the first cell to the last, and are kept without outputs."""

import importlib.util
import json
import tempfile
import unittest
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "notebooks"
NEEDED = ["nbclient", "nbformat", "ipykernel", "pyarrow", "polars", "altair", "matplotlib", "optuna"]
MISSING = [m for m in NEEDED if importlib.util.find_spec(m) is None]


class Notebooks(unittest.TestCase):
    def setUp(self):
        if not FOLDER.exists():
            self.skipTest("the notebooks are not part of the package")

    def test_they_are_kept_without_outputs(self):
        files = sorted(FOLDER.glob("*.ipynb"))
        self.assertEqual(len(files), 3)
        for file in files:
            for cell in json.loads(file.read_text())["cells"]:
                if cell["cell_type"] == "code":
                    self.assertEqual((cell["outputs"], cell["execution_count"]), ([], None), file.name)

    def run_one(self, name):
        import nbclient
        import nbformat

        with tempfile.TemporaryDirectory() as folder:
            notebook = nbformat.read(FOLDER / name, as_version=4)
            where = {"metadata": {"path": folder}}
            nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where).execute()
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        outputs = [output for cell in code for output in cell.outputs]
        return json.dumps([output.get("data", output.get("text", "")) for output in outputs])

    @unittest.skipIf(MISSING, f"the module {', '.join(MISSING)} is not installed")
    def test_choose_a_scheduler(self):
        said = self.run_one("choose-a-scheduler.ipynb")
        self.assertIn("mq-deadline", said)
        self.assertIn("vega", said)

    @unittest.skipIf(MISSING, f"the module {', '.join(MISSING)} is not installed")
    def test_sweep_and_frontier(self):
        said = self.run_one("sweep-and-frontier.ipynb")
        self.assertIn("34 cells, 34 run, 0 there", said)
        self.assertIn("34 cells, 0 run, 34 there", said)
        self.assertIn("with 8 held-out seeds", said)
        self.assertIn("image/png", said)

    @unittest.skipIf(MISSING, f"the module {', '.join(MISSING)} is not installed")
    def test_your_own_scheduler(self):
        said = self.run_one("your-own-scheduler.ipynb")
        self.assertIn("shortest{depth=16}", said)
        self.assertIn("image/png", said)


if __name__ == "__main__":
    unittest.main()
