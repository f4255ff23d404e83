# SPDX-License-Identifier: Apache-2.0
"""Code and documentation name the same things: CMake options and presets, environment variables,
tool flags, statuses, exported functions, and the version in the change log."""

import json
import re

import tree


def compare(problems, what, code, docs, page):
    for name in sorted(code - docs):
        problems.append(f"{page}: {what} {name} is not described")
    for name in sorted(docs - code):
        problems.append(f"{page}: {what} {name} does not exist")


def main():
    problems = []
    page = "docs/configuration.md"
    text = tree.text(page)
    cmake = tree.text("CMakeLists.txt")
    options = set(re.findall(r"option\((NPUSEG_\w+)", cmake))
    options |= set(re.findall(r"set\((NPUSEG_\w+) \S* CACHE", cmake))
    compare(problems, "option", options, set(re.findall(r"^\| `(NPUSEG_\w+)`", text, re.M)), page)
    presets = {preset["name"] for preset in
               json.loads(tree.text("CMakePresets.json"))["configurePresets"]
               if not preset.get("hidden")}
    compare(problems, "preset", presets, set(re.findall(r"^\| `([a-z]+)` \|", text, re.M)), page)

    page = "docs/environment.md"
    variables = set(re.findall(r'"(NPUSEG_[A-Z_]+)"', tree.text("lib/core/env.cc")))
    compare(problems, "variable", variables,
            set(re.findall(r"^\| `(NPUSEG_\w+)`", tree.text(page), re.M)), page)

    page = "docs/npuseg-cli.1"
    flags = set()
    for path in tree.files():
        if str(path).startswith("tools/npuseg-cli/") and path.suffix in (".cc", ".h"):
            flags |= set(re.findall(r'"[^"\n]*?(--[a-z][a-z-]*)', tree.text(path)))
            for line in tree.text(path).splitlines():
                if '"' in line:
                    flags |= set(re.findall(r"--[a-z][a-z-]+", line.split("//")[0]))
    manual = set(re.findall(r"--[a-z][a-z-]+", tree.text(page).replace("\\-", "-")))
    manual.discard("--option")  # stands for any option
    compare(problems, "flag", flags, manual, page)

    page = "docs/reference/api.md"
    header = tree.text("include/npuseg.h")
    reference = tree.text(page)
    for name in sorted(set(re.findall(r"\b(NPUSEG_[A-Z0-9_]+) = ", header))
                       | set(re.findall(r"\b(npuseg_\w+)\($", header, re.M))
                       | set(re.findall(r"^NPUSEG_API .*?\b(npuseg_\w+)\(", header, re.M))):
        if name not in reference:
            problems.append(f"{page}: {name} is not described")

    version = tree.text("VERSION").strip()
    if not re.search(rf"^## {re.escape(version)}\b", tree.text("CHANGELOG.md"), re.M):
        problems.append(f"CHANGELOG.md: no entry for {version}")
    tree.finish("docs_sync", problems)


main()
