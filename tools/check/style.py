# SPDX-License-Identifier: Apache-2.0
"""Text rules: licence line, line length, file length, no marks of unfinished work, no tabs or
trailing blanks, no output or process end inside the library, environment only in core/env."""

import re

import tree

COLUMNS = 100
SOFT_LINES, HARD_LINES = 600, 1200
CODE = (".h", ".c", ".cc", ".cpp", ".hpp", ".py", ".sh")
SCRIPTS = ("tools/demo", "tools/test", "tools/setup", ".ci/run")
# Committed as they were made elsewhere, or written by a generator.
GIVEN = ("demo/", "LICENSE")
# gen.py holds the text of the generated header.
GENERATED = ("include/npuseg.h", "docs/reference/", "abi/layout", "abi/gen.py", "tests/abi/",
             "tests/api/demo_embeddings.h", "tests/api/demo_expected.h")
FORBIDDEN_IN_LIBRARY = (
    (r"\b(?:std::)?(?:abort|exit|_exit|quick_exit|terminate)\s*\(", "ends the process"),
    (r"\bstd::c(?:out|err|log)\b|\b(?:std::)?(?:printf|puts|putchar)\s*\(", "prints"),
    (r"\b(?:std::)?(?:signal|sigaction)\s*\(", "sets a signal handler"),
)


def check_lines(path, lines, problems):
    generated = str(path).startswith(GENERATED)
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        if path.suffix != ".md" and not generated and len(line) > COLUMNS:
            problems.append(f"{where}: {len(line)} columns, at most {COLUMNS}")
        if line.rstrip() != line and path.suffix != ".md":
            problems.append(f"{where}: blanks at the end")
        if "\t" in line and path.suffix in CODE:
            problems.append(f"{where}: tab")
        if re.search(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX)\b", line):
            problems.append(f"{where}: mark of unfinished work")


def check_library(path, lines, problems):
    for number, line in enumerate(lines, 1):
        code = line.split("//")[0]
        for pattern, what in FORBIDDEN_IN_LIBRARY:
            if re.search(pattern, code):
                problems.append(f"{path}:{number}: {what}")
        if re.search(r"\b(?:secure_)?getenv\b", code) and str(path) != "lib/core/env.cc":
            problems.append(f"{path}:{number}: environment outside core/env")


def main():
    problems = []
    for path in tree.files():
        name = str(path)
        if name.startswith(GIVEN) or (path.suffix not in CODE + (".md", ".txt", ".cmake")
                                      and name not in SCRIPTS):
            continue
        if "/golden/" in name or "/corpus/" in name or "/data/" in name:
            continue
        lines = tree.text(path).splitlines()
        if path.suffix in CODE or name in SCRIPTS:
            if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(lines[:2]):
                problems.append(f"{path}: no SPDX line at the top")
            if len(lines) > HARD_LINES and not name.startswith(GENERATED):
                problems.append(f"{path}: {len(lines)} lines, at most {HARD_LINES}")
            elif len(lines) > SOFT_LINES and not name.startswith(GENERATED):
                print(f"note: {path}: {len(lines)} lines, better below {SOFT_LINES}")
        check_lines(path, lines, problems)
        if path.parts[0] == "lib":
            check_library(path, lines, problems)
    tree.finish("style", problems)


main()
