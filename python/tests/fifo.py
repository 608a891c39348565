"""The simplest policy, for several tests."""

import dwell


class Fifo(dwell.Policy):
    """First come, first served."""

    def __init__(self):
        self.queue = []

    def insert(self, now, request):
        self.queue.append(request.id)

    def merged(self, now, request, growth):
        if growth.absorbed is not None:
            self.queue.remove(growth.absorbed)

    def next(self, now, view):
        return dwell.Dispatch(self.queue.pop(0)) if self.queue else None
