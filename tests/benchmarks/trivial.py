"""Programs that are measured in the tests of the benchmarks."""


def add(n):
    def do():
        sum(range(n))
        return 1.0

    return do


def fail():
    raise ZeroDivisionError("on purpose")
