# SPDX-License-Identifier: Apache-2.0
"""clang-format 14 would change nothing (other versions format differently). Skipped without it."""

import shutil
import subprocess
import sys

import tree

GENERATED = ("include/", "tests/abi/", "tests/api/demo_embeddings.h", "tests/api/demo_expected.h",
             "demo/")


def main():
    if shutil.which("clang-format-14") is None:
        print("format: skipped: no clang-format-14")
        sys.exit(77)
    paths = [str(path) for path in tree.files()
             if path.suffix in (".h", ".c", ".cc", ".cpp", ".hpp")
             and not str(path).startswith(GENERATED)]
    done = subprocess.run(["clang-format-14", "--dry-run", "-Werror", *paths], cwd=tree.ROOT)
    sys.exit(1 if done.returncode else 0)


main()
