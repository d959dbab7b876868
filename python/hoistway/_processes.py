"""Processes of experiments: dictionaries with the keys of [[workload.NAME.procs]]."""


class Process(dict):
    """The keys of one process, or of several alike: load, name, count, and the parameters of the load.

    15 * process is the same with count = 15.
    """

    def __mul__(self, count):
        if not isinstance(count, int) or isinstance(count, bool):
            return NotImplemented
        return Process(self, count=count)

    __rmul__ = __mul__


def process(load, **keys):
    """A process with that load.

    keys: the parameters of the load, as "hoistway show LOAD" lists them; name [the load's]; count; stagger, the time
    between their starts; prio, such as "rt", "be/7" or "idle". Quantities are texts with a unit, such as "4k" and "8ms".
    """
    return Process(load=load, **keys)


def reader(**keys):
    """A process that reads its own file: pattern="seq" or "rand", bs="4k", direct=1 and others."""
    return process("reader", **keys)


def writer(**keys):
    """A process that writes its own file: pattern="seq" or "rand", bs="4k", dsync=1 and others."""
    return process("writer", **keys)
