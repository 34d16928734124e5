"""Builds sdist and wheel into dist/, checks them, and tries the wheel in empty environments.

python tools/dist.py             with the oldest supported jax and with the newest
python tools/dist.py newest      only with the newest; or with a version, such as 0.8.3

Needs .envs/uv/bin/uv, which the Makefile installs.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

from envs import ROOT, UV, find_python

DIST = ROOT / "dist"
# Twine must know the metadata that the newest hatchling writes, so that neither is exact.
BUILD, TWINE = "build[uv]>=1.6", "twine>=7"

MODEL = """
import jax, jax.numpy as jnp

def loss(w, x):
    return jnp.sum(jax.lax.scan(lambda x, _: (jnp.tanh(x @ w), None), x, None, length=3)[0])
"""
# Run with the Python of the empty environment, away from the clone.
SMOKE = """
import importlib.metadata, importlib.resources, sys
import jax, jax.numpy as jnp
import taxpr, taxpr_jupyter

for package in (taxpr, taxpr_jupyter):
    assert package.__file__.startswith(sys.prefix), package.__file__
    assert importlib.resources.files(package).joinpath("py.typed").is_file()
assert importlib.metadata.version("taxpr-jupyter") == taxpr.__version__
program = taxpr.trace(lambda x: taxpr.tag(jnp.sin(x), name="s") * 2)(0.0)
changed = program.inject({"s": taxpr.add(1.0)})
assert jax.jit(changed)(changed.ctx, 0.0)[0] == 2.0
session = taxpr_jupyter.panel(jnp.sin)(0.0)
assert "image/svg+xml" in session._repr_mimebundle_()[0]
print(f"  taxpr {taxpr.__version__} on jax {jax.__version__}, Python {sys.version.split()[0]}")
"""


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    subprocess.run(command, check=True, cwd=cwd)


def built() -> Path:
    """The wheel, made from the sdist."""
    shutil.rmtree(DIST, ignore_errors=True)
    tool = (UV, "tool", "run", "--quiet", "--python", sys.executable)
    run(*tool, "--from", BUILD, "pyproject-build", "--installer", "uv", "--outdir", DIST)
    run(*tool, "--from", TWINE, "twine", "check", "--strict", *sorted(DIST.iterdir()))
    [wheel] = DIST.glob("*.whl")
    return wheel


def check_files(wheel: Path) -> None:
    """The wheel holds the files of both packages, static ones too, and nothing else."""
    found = [p for package in ("taxpr", "taxpr_jupyter") for p in (ROOT / package).rglob("*")]
    expected = {
        path.relative_to(ROOT).as_posix()
        for path in found
        if path.is_file() and path.parent.name != "__pycache__"
    }
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    if inside != expected:
        sys.exit(f"dist: {wheel.name} and the tree differ in {sorted(inside ^ expected)}")
    [sdist] = DIST.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    if missing := expected - inside:
        sys.exit(f"dist: {sdist.name} lacks {sorted(missing)}")


def try_out(wheel: Path, jax: str) -> None:
    """Installs the wheel with this jax into an empty environment, and uses it there."""
    # The newest Python that all supported jax have wheels for, as in `tools/envs.py`.
    versions = ("3.13", "3.12", "3.11")
    python = next(found for version in versions if (found := find_python(version)))
    pins = () if jax == "newest" else (f"jax=={jax}", f"jaxlib=={jax}")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        print(f"dist: {wheel.name} with {jax} jax")
        run(UV, "venv", "--quiet", "--python", python, folder / "env")
        bin_ = folder / "env" / "bin"
        run(UV, "pip", "install", "--quiet", "--python", bin_ / "python", wheel, *pins)
        (folder / "model.py").write_text(MODEL)
        run(bin_ / "python", "-W", "error", "-c", SMOKE, cwd=folder)
        draw = (bin_ / "taxpr", "draw", "model.py:loss", "--args", "f32[8,8] f32[4,8]", "-o")
        for name in ("loss.svg", "loss.html", "loss.txt"):
            run(*draw, name, cwd=folder)


def oldest() -> str:
    """The floor of jax in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = [re.fullmatch(r"jax>=(\S+)", one) for one in project["dependencies"]]
    return next(match[1] for match in found if match)


def main(*versions: str) -> None:
    sys.stdout.reconfigure(line_buffering=True)
    wheel = built()
    check_files(wheel)
    for jax in versions or (oldest(), "newest"):
        try_out(wheel, jax)


if __name__ == "__main__":
    main(*sys.argv[1:])
