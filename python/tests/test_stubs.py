"""The types that editors see are those of the module."""

import ast
import inspect
import unittest
from pathlib import Path

import hoistway as hw

STUBS = ast.parse(Path(hw.__file__).with_name("__init__.pyi").read_text())


def parameters(function):
    """Names of the parameters of a function in the stubs, with those that may be left out."""
    given = function.args
    names = [a.arg for a in given.posonlyargs + given.args]
    optional = names[len(names) - len(given.defaults) :]
    optional += [a.arg for a, d in zip(given.kwonlyargs, given.kw_defaults) if d is not None]
    names += [a.arg for a in given.kwonlyargs]
    names += [a.arg for a in (given.vararg, given.kwarg) if a]
    return [n for n in names if n != "self"], [n for n in optional if n != "self"]


class Stubs(unittest.TestCase):
    def same(self, stub, real):
        found = [p for p in inspect.signature(real).parameters.values() if p.name != "self"]
        told = [p.name for p in found], [p.name for p in found if p.default is not p.empty]
        self.assertEqual(parameters(stub), told, stub.name)

    def test_functions(self):
        functions = {n.name: n for n in STUBS.body if isinstance(n, ast.FunctionDef)}
        classes = {n.name: n for n in STUBS.body if isinstance(n, ast.ClassDef)}
        self.assertEqual(sorted(functions | classes), sorted(hw.__all__))
        for name, stub in functions.items():
            self.same(stub, getattr(hw, name))
            self.assertTrue(getattr(hw, name).__doc__, name)

    def test_classes(self):
        for stub in STUBS.body:
            if not isinstance(stub, ast.ClassDef):
                continue
            real = getattr(hw, stub.name)
            self.assertTrue(real.__doc__, stub.name)
            members = {n.name: n for n in stub.body if isinstance(n, ast.FunctionDef)}
            public = {n for n in vars(real) if not n.startswith("_")}
            self.assertEqual(public, {n for n in members if not n.startswith("_")}, stub.name)
            for name, member in members.items():
                if not name.startswith("_") and not member.decorator_list:
                    self.same(member, getattr(real, name))
            for name in public:
                self.assertTrue(getattr(real, name).__doc__, f"{stub.name}.{name}")

    def test_the_docstrings_of_tables_are_their_columns(self):
        result = hw.run("latency-2019", reps=1, quick=True)
        (stub,) = (n for n in STUBS.body if isinstance(n, ast.ClassDef) and n.name == "Result")
        for member in stub.body:
            if isinstance(member, ast.FunctionDef) and ast.get_docstring(member):
                told = ast.get_docstring(member).rstrip(".").split(", ")
                self.assertEqual(getattr(result, member.name).column_names, told, member.name)


if __name__ == "__main__":
    unittest.main()
