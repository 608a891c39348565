import threading

import dwell
from fifo import Fifo


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
