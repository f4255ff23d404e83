# SPDX-License-Identifier: Apache-2.0
"""What the checks share: the repository's files and how a check reports."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def files():
    """Paths, relative to the root, of all files that belong to the repository."""
    try:
        listed = subprocess.run(
            ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached"],
            cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
        paths = [pathlib.PurePosixPath(name) for name in listed if name]
    except (OSError, subprocess.CalledProcessError):  # a source archive without git
        paths = [pathlib.PurePosixPath(path.relative_to(ROOT).as_posix())
                 for path in ROOT.rglob("*") if path.is_file()]
        paths = [path for path in paths if path.parts[0] not in ("build", ".git")]
    return sorted(path for path in set(paths) if (ROOT / path).is_file())


def text(path):
    return (ROOT / path).read_text(encoding="utf-8")


def finish(check, problems):
    """Prints the problems and ends the program; 0 only when there is none."""
    for problem in problems:
        print(problem)
    print(f"{check}: {len(problems)} problem(s)")
    sys.exit(1 if problems else 0)
