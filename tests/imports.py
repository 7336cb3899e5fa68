"""What a new process imports."""

import subprocess
import sys


def imported(code: str, *names: str) -> list[str]:
    """Which of these modules a new process has imported once it has run the code."""
    code += f"\nimport sys; print(*[name for name in {names} if name in sys.modules])"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()[-1].split()
