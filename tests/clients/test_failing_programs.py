"""What was traced until an error in a module of a library, in a process without haiku.

Beside haiku's programs nothing is kept of such errors, and why is not known yet.
"""

import subprocess
import sys
from pathlib import Path


def test_in_a_process_of_its_own():
    cases = str(Path(__file__).with_name("failing_programs.py"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:nbval", "-p", "no:playwright", cases]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stdout
