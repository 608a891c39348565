import pathlib
import subprocess
import sys
import threading

import dwell
import pytest
from fifo import Fifo

#: The main thread ends while a daemon thread compares.
ENDS = """
import threading, time, dwell
from fifo import Fifo
begun = threading.Event()
class Policy(Fifo):
    def insert(self, now, request):
        begun.set()
        super().insert(now, request)
def compare():
    while True:
        dwell.compare("tpc-h", [SCHEDULER])
        begun.set()
threading.Thread(target=compare, daemon=True).start()
begun.wait(1)
"""


def test_two_threads_get_the_results_of_one():
    alone = dwell.compare("par-read", ["noop", "stream"], at_most=1).to_json()
    results = [None, None]

    def simulate(index):
        results[index] = dwell.compare("par-read", ["noop", "stream"], at_most=1).to_json()

    threads = [threading.Thread(target=simulate, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [alone, alone]


def test_policies_of_two_threads_are_separate():
    names = [None, None]

    def simulate(index):
        policy = type(f"Policy{index}", (Fifo,), {})
        names[index] = dwell.compare("par-read", [policy], at_most=0.3).runs[0]["scheduler"]

    threads = [threading.Thread(target=simulate, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names == ["Policy0", "Policy1"]


@pytest.mark.parametrize("scheduler", ["Policy", "'noop'"])
def test_the_interpreter_ends_while_a_daemon_thread_compares(scheduler):
    text = ENDS.replace("SCHEDULER", scheduler)
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, cwd=pathlib.Path(__file__).parent)
    assert (ended.returncode, ended.stderr) == (0, "")
