"""What holds for every test: what a marked test needs, and that no skip passes unseen in CI.

With ``CKPT_GOVERNOR_CI=1`` a skipped test fails the run, and the run says which and why. A session that cannot
have something says so in ``CKPT_GOVERNOR_ALLOWED_SKIPS``: a comma list of the beginnings of reasons.
A test that needs a framework carries its marker and imports it inside the test: a module that is skipped as a whole
would be skipped where the framework is not wanted, too.
"""

from __future__ import annotations

import importlib.util
import os
import signal

import hypothesis
import pytest

FRAMEWORKS = ("torch", "jax")

# A busy machine is no failure; the rest stays as Hypothesis chose it, which in CI is repeatable.
hypothesis.settings.register_profile("unhurried", hypothesis.settings(), deadline=None)
hypothesis.settings.load_profile("unhurried")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what cannot run here; every reason begins with the marker."""
    for framework in FRAMEWORKS:
        if item.get_closest_marker(framework) and importlib.util.find_spec(framework) is None:
            pytest.skip(f"{framework}: not installed here, `nox -s frameworks` has it")
    library = item.get_closest_marker("library")
    if library is not None and importlib.util.find_spec(library.args[0]) is None:
        pytest.skip(f"library: {library.args[0]} is not installed here, `nox -s formats` has it")
    if item.get_closest_marker("needs_root") and os.geteuid() != 0:
        pytest.skip("needs_root: only root may mount a file system")


def pytest_configure(config: pytest.Config) -> None:
    """In CI, count the skips. And wherever this runs, let a signal end what a test starts: a shell that starts the
    tests in the background has them ignore Ctrl-C, and nohup has them ignore the hang-up."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(
            signal.SIGHUP, lambda *_: None
        )  # a handler is not inherited, and the tests go on themselves
    if os.environ.get("CKPT_GOVERNOR_CI") == "1":
        listed = os.environ.get("CKPT_GOVERNOR_ALLOWED_SKIPS", "").split(",")
        config.pluginmanager.register(UnexpectedSkips(tuple(word.strip() for word in listed if word.strip())))


class UnexpectedSkips:
    """Fails the run when a test or a module was skipped for a reason that is not on the list."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self.allowed = allowed
        self.found: list[str] = []

    def note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Remember a skip, unless it is an expected failure or allowed."""
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if not reason.startswith(self.allowed):
            self.found.append(f"{report.nodeid}: {reason}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test was skipped, or not."""
        self.note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module was skipped, or not."""
        self.note(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Turn a run that passed into one that did not."""
        if self.found and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name them."""
        if self.found:
            terminalreporter.section("skipped, though CI must run it", red=True)
            for line in self.found:
                terminalreporter.line(line)
