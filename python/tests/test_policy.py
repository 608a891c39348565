import pathlib

import pytest

import dwell
from fifo import Fifo


def run(policy, **keywords):
    return dwell.compare("par-read", [policy], at_most=0.5, **keywords).runs[0]


def test_a_policy_decides_as_its_equivalent_in_rust():
    ours, theirs = dwell.compare("par-read", [Fifo, "noop"], at_most=1).runs
    assert ours.pop("scheduler") == "Fifo"
    assert theirs.pop("scheduler") == "noop"
    assert ours == theirs


def test_the_checker_accepts_a_correct_policy():
    dwell.check_policy(Fifo, operations=4000)


def test_the_arguments_of_methods():
    seen = {}

    class Observer(Fifo):
        def insert(self, now, request):
            seen["request"] = request
            super().insert(now, request)

        def next(self, now, view):
            seen["view"] = (view.depth, view.in_flight, view.head)
            return super().next(now, view)

        def completed(self, now, request, outcome):
            seen["outcome"] = outcome

        def may_merge(self, request, addition, side):
            seen["side"] = side
            return False

    run(Observer, depth=1)
    request = seen["request"]
    assert request.op == "read" and request.sync and request.end == request.start + request.sectors
    assert request.process is not None and request.priority == ("best-effort", 4)
    assert seen["view"][0] == 1 and seen["outcome"] == "done"
    assert repr(request).startswith("Request(id=")


def test_a_factory_sets_tunables():
    class Slow(Fifo):
        name = "slow"

        def __init__(self, patience):
            super().__init__()
            self.patience, self.since = patience, None

        def next(self, now, view):
            if not self.queue:
                self.since = None
                return None
            if self.since is None:
                self.since = now
            if now < self.since + self.patience:
                return dwell.Hold(self.since + self.patience, "a test")
            self.since = None
            return self.queue.pop(0)

    assert run(Slow and (lambda: Slow(2_000_000)))["waited_ns"] > 0
    dwell.check_policy(lambda: Slow(2_000_000), operations=1000)


class Loses(Fifo):
    def insert(self, now, request):
        if request.serial % 50 != 49:
            super().insert(now, request)


class Foreign(Fifo):
    def next(self, now, view):
        return 123_456 if self.queue else None


class Forever(Fifo):
    def next(self, now, view):
        return dwell.Hold(None) if self.queue else None


class Past(Fifo):
    def next(self, now, view):
        return dwell.Hold(0) if self.queue else None


class Years(Fifo):
    def next(self, now, view):
        return dwell.Hold(now + 100 * 365 * 86_400 * 10**9, "a test") if self.queue else None


class AfterTheLast(Fifo):
    def next(self, now, view):
        return super().next(now, view) or dwell.Hold(now + 1_000_000, "a test")


class AgainAndAgain(Fifo):
    def next(self, now, view):
        return dwell.Hold(now + 9_000_000_000, "a test") if self.queue else None


class Bounded(Fifo):
    def longest_wait(self, requests, depth, service):
        return 1


class Lifo(Fifo):
    """Starves the first requests of a long queue."""

    def next(self, now, view):
        return self.queue.pop() if self.queue else None

    def longest_wait(self, requests, depth, service):
        return 1_000_000


class Bound(Fifo):
    """Served in order, a request waits at most for those before it."""

    def longest_wait(self, requests, depth, service):
        return requests * service


class Nonsense(Fifo):
    def longest_wait(self, requests, depth, service):
        return "abc"


class Negative(Fifo):
    def longest_wait(self, requests, depth, service):
        return -1


class Hurries(Fifo):
    """Takes milliseconds for nanoseconds."""

    def next(self, now, view):
        return dwell.Hold(now + 10, "a test") if self.queue else None


@pytest.mark.parametrize("policy", [Loses, Foreign, Forever, Past, Years, AfterTheLast, Bounded])
def test_the_checker_finds_violations(policy):
    with pytest.raises(dwell.PolicyError, match="violations|in the setting|holds with nothing queued"):
        dwell.check_policy(policy, operations=8000)


def test_the_checker_ends_short_holds():
    with pytest.raises(dwell.PolicyError, match="held 100000 times"):
        dwell.check_policy(Hurries, operations=8000)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Foreign, "policy Foreign: next() at 0 ns: it dispatched request 123456, which is not queued"),
        (Forever, "it holds for a completion, and no request is in flight"),
        (Past, "it holds until a time that has passed"),
        (Years, "it holds for 3153600000 s; a hold lasts at most 10 s"),
        (AfterTheLast, "it holds with nothing queued; return None"),
        (AgainAndAgain, "policy AgainAndAgain: it held back every request of an idle device for 30 s (a test)"),
        (Hurries, "it held 100000 times without a dispatch or a new request, the last time for 1"),
        (Loses, "it returned None with 1 requests queued"),
    ],
)
def test_a_comparison_ends_with_the_first_violation(policy, expected):
    with pytest.raises(dwell.PolicyError) as caught:
        dwell.compare("par-read", [policy])
    assert expected in str(caught.value)


RECORDINGS = pathlib.Path(__file__).resolve().parents[2] / "recordings"


@pytest.mark.parametrize("keywords", [{}, {"depth": 1}, {"open": True}, {"drive": dwell.Drive("wd5000aaks", array="raid5:3x64k")}, {"drive": "ssd-sata"}])
def test_a_comparison_verifies_the_bound_of_a_policy(keywords):
    recording = RECORDINGS / "two-greps-and-a-copy.ftrace.gz"
    with pytest.raises(dwell.PolicyError, match="policy Lifo: next\\(\\) at .* waited .*, longer than the policy's bound 1 ms: longest_wait"):
        dwell.compare(recording, [Lifo], at_most="3s", **{**keywords, "drive": "wd5000aaks", "open": False})
    # Flushes and the queue's plug take time for which a policy is not responsible.
    assert dwell.compare(recording, [Bound], at_most="3s", **keywords).runs[0]["failure"] is None


@pytest.mark.parametrize(("policy", "found"), [(Nonsense, "'abc'"), (Negative, "-1")])
def test_a_bound_that_is_no_time(policy, found):
    for call in (lambda: run(policy), lambda: dwell.check_policy(policy, operations=800)):
        with pytest.raises(TypeError) as caught:
            call()
        assert f"policy {policy.__name__}: longest_wait() returned {found}; return nanoseconds" in str(caught.value)


def test_random_decisions_are_found():
    import random

    class Dice(Fifo):
        def next(self, now, view):
            return self.queue.pop(random.randrange(len(self.queue))) if self.queue else None

    with pytest.raises(dwell.PolicyError, match="decides differently on the same input"):
        dwell.check_policy(Dice, operations=800)


def test_exceptions_of_a_policy_reach_the_caller():
    class Broken(Fifo):
        def completed(self, now, request, outcome):
            raise LookupError("a test")

    for call in (lambda: run(Broken), lambda: dwell.check_policy(Broken, operations=800)):
        with pytest.raises(LookupError, match="a test") as caught:
            call()
        assert caught.traceback[-1].name == "completed"
    assert run(Fifo)["requests"] > 0, "a later run is unaffected"


def test_wrong_policies():
    class Nothing:
        pass

    with pytest.raises(dwell.InputError, match="policy Nothing: it has no method 'insert'"):
        run(Nothing)
    with pytest.raises(TypeError, match="abstract class Policy .*insert.*merged.*next"):
        run(dwell.Policy)
    with pytest.raises(TypeError, match="abstract class Policy"):
        dwell.check_policy(dwell.Policy)
    with pytest.raises(TypeError, match="give the class itself"):
        dwell.check_policy(Fifo())

    class Text(Fifo):
        def next(self, now, view):
            return "the first"

    with pytest.raises(TypeError, match="next\\(\\) returned 'the first'"):
        run(Text)
    with pytest.raises(TypeError, match="Hold: until is str"):
        dwell.Hold("now")
    for until in (-1, 2**64):
        with pytest.raises(ValueError, match=f"Hold: until={until} is no time; virtual time is from 0 to 2\\^64 - 1 ns"):
            dwell.Hold(until, "a test")
    for number in (-1, 2**32):
        with pytest.raises(ValueError, match=f"Dispatch: request={number} is no id; ids are from 0 to 2\\^32 - 1"):
            dwell.Dispatch(number)
    with pytest.raises(dwell.InputError, match="at least 8"):
        dwell.check_policy(Fifo, operations=1)


def test_a_policy_has_the_limit_of_the_others(columns):
    trace = dwell.Trace.from_columns(**columns, time_unit="ns")
    limits = [round(run["of_limit"] * run["elapsed_ns"]) for run in dwell.compare(trace, [Fifo, "noop", "stream"]).runs]
    assert limits[0] > 0 and limits == limits[:1] * 3


def test_answers_and_arguments_of_a_wrong_type_are_named():
    class Perhaps(Fifo):
        def may_merge(self, request, addition, side):
            return "maybe"

    class Wordless(Fifo):
        def next(self, now, view):
            return dwell.Hold(now + 10, 3) if self.queue else None

    class Numbered(Fifo):
        def next(self, now, view):
            return dwell.Dispatch(self.queue.pop(0), 3) if self.queue else None

    class Truth(Fifo):
        def next(self, now, view):
            return bool(self.queue)

    for policy, expected in [
        (Perhaps, r"policy Perhaps: may_merge\(\) returned 'maybe'; return True or False"),
        (Wordless, "Hold: reason is int; give text"),
        (Numbered, "Dispatch: reason is int; give text"),
        (Truth, r"policy Truth: next\(\) returned (True|False); return a Request or its id, a Dispatch, a Hold or None"),
    ]:
        with pytest.raises(TypeError, match=expected):
            dwell.check_policy(policy, operations=8000)
    for arguments, error, expected in [
        ({"operations": "a"}, TypeError, "operations is str 'a'; it is a whole number"),
        ({"operations": 7}, dwell.InputError, "operations=7 is not at least 8"),
        ({"seed": 0.5}, TypeError, "seed is float 0.5; it is a whole number"),
    ]:
        with pytest.raises(error, match=expected):
            dwell.check_policy(Fifo, **arguments)
    with pytest.raises(TypeError, match="Dispatch: request is str; give a Request or its id"):
        dwell.Dispatch("x")


def test_a_bound_has_no_allowance():
    class Late(Fifo):
        """Serves each request twice the bound after its arrival."""

        def __init__(self):
            super().__init__()
            self.arrived = []

        def insert(self, now, request):
            super().insert(now, request)
            self.arrived.append(now)

        def merged(self, now, request, growth):
            if growth.absorbed in self.queue:
                self.arrived.pop(self.queue.index(growth.absorbed))
            super().merged(now, request, growth)

        def next(self, now, view):
            if self.queue and now < self.arrived[0] + 2_000_000:
                return dwell.Hold(self.arrived[0] + 2_000_000, "a test")
            if self.queue:
                self.arrived.pop(0)
            return super().next(now, view)

        def longest_wait(self, requests, depth, service):
            return 1_000_000

    with pytest.raises(dwell.PolicyError, match="waited .* longer than the policy's bound 1 ms: longest_wait"):
        dwell.compare(RECORDINGS / "two-greps-and-a-copy.ftrace.gz", [Late], at_most="1s")
    with pytest.raises(dwell.PolicyError, match=r"(?s)policy Bounded: .* violations.*the bound is longest_wait\(\) plus 10 ms for a flush in the device"):
        dwell.check_policy(Bounded, operations=8000)
