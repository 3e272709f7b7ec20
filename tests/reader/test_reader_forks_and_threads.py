"""Threads share one answer, a forked child goes on by itself, and nobody waits for anybody."""

from __future__ import annotations

import itertools
import threading

import pytest

import ckpt_reader

THREADS = 8


def test_of_many_threads_exactly_one_gets_the_answer(unit):
    ticks = itertools.count()
    reader = ckpt_reader._Reader(str(unit.path), lambda: next(ticks) * 0.0625)  # every call is a new look
    gate = threading.Barrier(THREADS + 1, timeout=60)
    answers = []

    def job():
        for _ in range(12):
            gate.wait()
            answers.extend(reader.ask() for _ in range(10))
            gate.wait()

    threads = [threading.Thread(target=job) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    found = []
    for request in [None, None, *range(1, 11)]:
        unit.write(request, beat_every_s=600)
        answers.clear()
        gate.wait()
        gate.wait()
        found.append(answers.count(True))
    for thread in threads:
        thread.join()
    assert found == [0, 0, *[1] * 10]


def test_a_thread_that_hangs_on_the_volume_holds_no_other(asker, unit, monkeypatch):
    asker.prove()
    unit.write(7)
    read, reached, release = ckpt_reader._read, threading.Event(), threading.Event()

    def hang(path):
        reached.set()
        assert release.wait(60)
        return read(path)

    monkeypatch.setattr(ckpt_reader, "_read", hang)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(asker.ask()))
    thread.start()
    assert reached.wait(60)
    assert asker.ask() is False
    release.set()
    thread.join()
    assert answers == [True]


def test_a_signal_handler_may_ask_while_the_job_asks(asker, unit, monkeypatch):
    asker.prove()
    unit.write(7)
    read, inner = ckpt_reader._read, []

    def interrupted(path):
        inner.append(asker.reader.ask())  # what a handler does that runs in the middle of a look
        return read(path)

    monkeypatch.setattr(ckpt_reader, "_read", interrupted)
    assert asker.ask() is True
    assert inner == [False]


FORKING = """
import json, os, sys, threading, ckpt_reader
unit, now = sys.argv[1], 1024.0
ckpt_reader._process = ckpt_reader._Process(lambda: now)
beats = iter(range(1, 1000))

def write(request=None):
    state = {"v": 1, "governor": {"id": "g", "alive": True}, "beat": next(beats), "beat_every_s": 5.0,
             "request": request and {"id": request}}
    with open(unit + "/.ckpt-governor/new", "w") as file:
        json.dump(state, file)
    os.replace(unit + "/.ckpt-governor/new", unit + "/.ckpt-governor/state.json")

def ask(after_s=0.0625):
    global now
    now += after_s
    return ckpt_reader.should_save(unit)

def in_child(act):
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = sum(bool(answer) << bit for bit, answer in enumerate(act()))
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return [bool(code >> bit & 1) for bit in range(2)] if 0 <= code < 4 else code

def prove():
    for _ in range(2):
        write()
        assert not ask()
"""


@pytest.fixture
def forking(run_python, unit):
    def run(script):
        done = run_python(FORKING + script, unit.path)
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\n")[:-1]

    return run


def test_a_child_inherits_what_was_served(forking):
    script = """
prove()
write(7)
print(ask())
print(in_child(lambda: [ask(), ask()]))
print(ask())
"""
    assert forking(script) == ["True", "[False, False]", "False"]


def test_a_child_and_its_parent_each_answer_a_new_request(forking):
    script = """
prove()
def child():
    write(7)
    return [ask(), ask()]
print(in_child(child))
print([ask(), ask()])
"""
    assert forking(script) == ["[True, False]", "[True, False]"]


def test_a_child_keeps_its_own_clock_for_its_own_period(forking, unit):
    unit.numbers("30m")
    script = """
print(ask(1200.0))
print(in_child(lambda: [ask(1799.0), ask(1.0)]))
print(ask(600.0))
print(in_child(lambda: [ask(1799.0), ask(1.0)]))
"""
    assert forking(script) == ["False", "[False, True]", "True", "[False, True]"]


def test_a_directory_that_a_child_first_asks_for_counts_from_the_fork(forking, unit):
    unit.numbers("30m")
    script = """
now += 10000.0
print(in_child(lambda: [ask(1799.0), ask(1.0)]))
"""
    assert forking(script) == ["[False, True]"]


def test_a_child_is_not_held_by_a_lock_that_another_thread_had(forking):
    script = """
prove()
write(7)
read, reached, release, parent = ckpt_reader._read, threading.Event(), threading.Event(), os.getpid()
def hang(path):
    if os.getpid() == parent:
        reached.set()
        release.wait(60)
    return read(path)
ckpt_reader._read = hang
answers = []
thread = threading.Thread(target=lambda: answers.append(ask()))
thread.start()
reached.wait(60)
print(in_child(lambda: [ask(), ask()]))
release.set()
thread.join()
print(answers)
"""
    assert forking(script) == ["[True, False]", "[True]"]
