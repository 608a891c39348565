import numpy
import pytest


@pytest.fixture
def columns():
    """Two processes that read alternately, far apart, each request 1 ms after the completion of the one before."""
    rows = 400
    index = numpy.arange(rows)
    time = index * 6_000_000
    return {
        "time": time,
        "offset": (index // 2 * 8 + index % 2 * 40_000_000) * 512,
        "bytes": numpy.full(rows, 4096),
        "op": numpy.full(rows, "read"),
        "process": index % 2 + 1,
        "completed": time + 5_000_000,
    }
