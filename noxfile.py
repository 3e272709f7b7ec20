"""The front door: `nox --list` is the menu, and `nox` alone is check and tests."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["check", "tests"]
nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = True

ROOT = Path(__file__).parent
PROJECT = nox.project.load_toml("pyproject.toml")
FRAMEWORKS_PYTHON = os.environ.get("CKPT_GOVERNOR_FRAMEWORKS_PYTHON", "3.11")


def install(session: nox.Session, *groups: str) -> None:
    """The project as it stands here, and the dependency groups from pyproject.toml."""
    session.install("-e", ".", *nox.project.dependency_groups(PROJECT, *groups))


@nox.session
def check(session: nox.Session) -> None:
    """Formatting, lint and types: ruff format --check, ruff check, mypy (strict for the library)."""
    install(session, "check")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy")
    beside = ("benchmarks", "noxfile.py")  # tests may take an Optional for granted: a wrong one fails them
    session.run("mypy", "--allow-untyped-defs", "--allow-incomplete-defs", "--allow-untyped-calls", *beside)


@nox.session
def tests(session: nox.Session) -> None:
    """The suite, without what needs a framework or minutes; arguments after -- go to pytest."""
    install(session, "test")
    session.run("pytest", "-m", "not torch and not jax and not library and not experiment", *session.posargs)


@nox.session(python=[FRAMEWORKS_PYTHON])  # a list, so that each Python has an environment of its own
def frameworks(session: nox.Session) -> None:
    """The tests that need PyTorch or JAX; CKPT_GOVERNOR_FRAMEWORKS_PYTHON names another Python than 3.11."""
    install(session, "frameworks")
    session.env["JAX_PLATFORMS"] = "cpu"
    for framework in ("torch", "jax"):  # one run each, so that an empty one fails
        session.run("pytest", "-m", framework, *session.posargs)


@nox.session(python=[FRAMEWORKS_PYTHON])
def formats(session: nox.Session) -> None:
    """The tests that write checkpoints with the real libraries, from DeepSpeed to TensorFlow."""
    install(session, "formats")
    session.env.update(
        JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1"
    )
    beside = ("-n", "2", "--dist", "loadfile")  # much of it waits for processes; a file shares what it saved
    session.run("pytest", "-m", "library", *beside, *session.posargs)


@nox.session
def verify(session: nox.Session) -> None:
    """What a release must pass: check, tests, demo, and the README's figures, printed."""
    check(session)
    tests(session)
    demo(session)
    session.run("pytest", "-s", "tests/test_readme.py")


@nox.session
def demo(session: nox.Session) -> None:
    """A real small training job with its governor, a preemption, an interrupted write and its repair."""
    session.install(".")
    session.run("ckptctl", "demo", *session.posargs)


@nox.session
def exp(session: nox.Session) -> None:
    """The experiments: minutes of real jobs and governors in real time."""
    install(session, "test")
    session.run("pytest", "-m", "experiment", "--timeout", "900", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """The measurements: every script in benchmarks/ prints its figures."""
    scripts = sorted((ROOT / "benchmarks").glob("[!_]*.py"))
    if not scripts:
        session.error("there is no script in benchmarks/")
    install(session)
    for script in scripts:
        session.log(script.name)
        session.run("python", str(script), *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation as a site in build/site; a dead link fails it."""
    session.install(*nox.project.dependency_groups(PROJECT, "docs"))
    session.run("mkdocs", "build", "--strict", env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session
def dist(session: nox.Session) -> None:
    """The sdist, the wheel and SHA256SUMS in dist/, and both programs run from the wheel."""
    session.install(*nox.project.dependency_groups(PROJECT, "dist"))
    folder = ROOT / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(folder))
    files = sorted(folder.iterdir())
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (folder / "SHA256SUMS").write_text("".join(sums))
    fresh = Path(session.create_tmp()) / "fresh"
    session.run("python", "-m", "venv", "--clear", str(fresh))
    (wheel,) = folder.glob("*.whl")
    session.run(str(fresh / "bin" / "pip"), "install", "--quiet", str(wheel), external=True)
    for program in ("ckpt-governor", "ckptctl"):
        session.run(str(fresh / "bin" / program), "--version", external=True)


@nox.session(python=False)
def image(session: nox.Session) -> None:
    """The container image ckpt-governor:local, by podman, buildah or docker."""
    if not (ROOT / "sidecar" / "Dockerfile").exists():
        session.error(
            "there is no image yet: it is built from sidecar/Dockerfile, which comes with the sidecar"
        )
    builder = next((tool for tool in ("podman", "buildah", "docker") if shutil.which(tool)), None)
    if builder is None:
        session.error("none of podman, buildah and docker is on the PATH")
    session.run(
        builder, "build", "-t", "ckpt-governor:local", "-f", "sidecar/Dockerfile", *session.posargs, "."
    )


@nox.session
def matrix(session: nox.Session) -> None:
    """The suite and the demo against the wheel in Python 3.10 to 3.14, by tox; after --, the environments to run."""
    session.install(*nox.project.dependency_groups(PROJECT, "matrix"))
    chosen = ["-e", ",".join(session.posargs)] if session.posargs else []
    session.run("tox", "run-parallel", "--parallel", "2", "--parallel-no-spinner", *chosen)
