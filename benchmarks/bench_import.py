"""How much `import taxpr` adds to `import jax`, and what is imported when it is used.

python benchmarks/bench_import.py

The figure is a median of processor times, and also goes to build/bench_import.json.
"""

import os
import statistics
import subprocess
import sys
import tempfile

import programs

RUNS = 9
CODE = """
import time
start = time.process_time()
import jax
jax_done = time.process_time()
import taxpr
taxpr_done = time.process_time()
taxpr.tag, taxpr.trace, taxpr.inject, taxpr.collect
core_done = time.process_time()
for name in taxpr.__all__:
    getattr(taxpr, name)
all_done = time.process_time()
print(jax_done - start, taxpr_done - jax_done, core_done - jax_done, all_done - jax_done)
"""


def run(folder: str) -> list[float]:
    """The processor times of the imports, with bytecode in a folder."""
    env = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    return [float(text) for text in done.stdout.split()]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        runs = [run(folder) for _ in range(RUNS + 1)][1:]  # the first one wrote the bytecode
    jax_times, taxpr_times, core_times, all_times = zip(*runs, strict=True)
    print(f"import jax: {1e3 * statistics.median(jax_times):.0f} ms")
    added = 1e3 * statistics.median(taxpr_times)
    for what, times in (("trace, inject, collect", core_times), ("every name", all_times)):
        print(f"and {what}: {1e3 * statistics.median(times):.0f} ms")
    goal = programs.reached("import taxpr after import jax", added, 50, " ms")
    programs.write("bench_import", {"goals": [goal]})


if __name__ == "__main__":
    main()
