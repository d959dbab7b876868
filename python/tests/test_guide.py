"""The blocks of the guide run as they stand there, one after another."""

import os
import re
import tempfile
import unittest
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs/guide/python.md"


class Guide(unittest.TestCase):
    def test_its_blocks_run(self):
        if not GUIDE.exists():
            self.skipTest("the guide is not part of the package")
        blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(blocks), 3)
        names, before = {}, os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            try:
                os.chdir(folder)
                for block in blocks:
                    exec(compile(block, str(GUIDE), "exec"), names)
            finally:
                os.chdir(before)
        self.assertEqual(names["again"].csv(), names["result"].csv())


if __name__ == "__main__":
    unittest.main()
