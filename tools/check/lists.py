# SPDX-License-Identifier: Apache-2.0
"""Every source file is named in the CMakeLists.txt of its folder or of one above, and every source
file named there exists."""

import re

import tree

# Not examples/: tests/install/run.sh builds them as a stranger would.
FOLDERS = ("lib", "tests", "tools", "bench")


def main():
    problems = []
    paths = tree.files()
    named = {}
    for path in paths:
        if path.name != "CMakeLists.txt":
            continue
        text = re.sub(r"#.*", "", tree.text(path))
        named[path.parent] = text
        for name in re.findall(r"(?<![\w./$}{-])([\w./-]+\.(?:cc|c|cpp))\b", text):
            if not (tree.ROOT / path.parent / name).is_file() and not (tree.ROOT / name).is_file():
                problems.append(f"{path}: names {name}, which is not there")
    for path in paths:
        if path.parts[0] not in FOLDERS or path.suffix not in (".cc", ".c", ".cpp"):
            continue
        # tests/fuzz and others build names in a loop: the stem's first part counts.
        stem = re.sub(r"_(?:fuzz|test)$", "", path.stem)
        folder = path.parent
        # Helpers of several tests are named by their path from the root.
        found = any(str(path) in text for text in named.values())
        while not found and folder.parts:
            text = named.get(folder, "")
            relative = str(path.relative_to(folder))
            found = relative in text or re.search(rf"\b{re.escape(stem)}\b", text) is not None
            folder = folder.parent
        if not found:
            problems.append(f"{path}: is in no CMakeLists.txt")
    tree.finish("lists", problems)


main()
