"""Schedulers that are classes."""

from . import _hoistway

# Names of those that were made known in this process: another one does not know them.
CLASSES = set()


def scheduler(name, *, summary=None, tunables=None):
    """Makes a class known as the scheduler of that name, for compare, run and the others.

    The class has three methods. Times are in ns since the run began; the simulation ends at the first exception.

    insert(now, request): a Request waits from now on. Its id is its number in this run. With requeued it goes before all
        others.
    dispatch(now): the id of the request that the device gets next, or None to hold all of them back; asked again when a
        request is inserted, and after 3 ms at the latest.
    gone(now, id): that request has joined another, and is not to be dispatched.

    It may have two more: done(now, id), the device has served it; grown(now, request), a request that waits has become
    longer by another that joined it.

    An instance is made for each run. tunables: name -> (default, min, max) or (default, min, max, text), whole numbers. They
    are attributes of the instance before __init__ is called, and what a configuration sets: "name{quantum=8}".
    summary: one line [the first of the docstring].

    Slow: about 40 us a request, where those in Rust take less than 1 us, and one simulation at a time unless jobs says otherwise.
    """

    def register(cls):
        line = summary or (cls.__doc__ or "").strip().partition("\n")[0] or "a class in Python"
        rows = [(n, *row) if len(row) == 4 else (n, *row, "") for n, row in (tunables or {}).items()]
        _hoistway.register(name, cls, line, rows)
        CLASSES.add(name)
        return cls

    return register
