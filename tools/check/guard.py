# SPDX-License-Identifier: Apache-2.0
"""Every exported function that returns a status is one `return guard(...)`, the exception barrier;
the few others must be noexcept or one plain expression. Every exported function is defined once."""

import re

import tree

# Return no status and cannot throw: they give a constant, a number, or change a reference count.
PLAIN = {
    "npuseg_version", "npuseg_version_string", "npuseg_build_info", "npuseg_status_name",
    "npuseg_last_error", "npuseg_release", "npuseg_retain", "npuseg_device_count",
}


def body(text, start):
    """The text between the brace at start and its partner."""
    depth = 0
    for index in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return text[start + 1:index].strip()
    return ""


def main():
    problems = []
    symbols = {line.split()[0] for line in tree.text("abi/symbols.txt").splitlines()
               if line and not line.startswith("#")}
    defined = {}
    for path in tree.files():
        if path.parts[:2] != ("lib", "api") or path.suffix != ".cc":
            continue
        text = re.sub(r"//.*", "", tree.text(path))
        pattern = r"^(?:[\w:*]+[ *]+)+(npuseg_\w+)\(([^;{}]*)\)\s*(noexcept\s*)?\{"
        for match in re.finditer(pattern, text, re.M):
            name = match.group(1)
            if name not in symbols:
                continue
            if name in defined:
                problems.append(f"{path}: {name} is defined twice")
            defined[name] = path
            content = body(text, match.end() - 1)
            if name in PLAIN:
                continue
            # The last statement closes the guard; nothing stands before or after it.
            if not re.fullmatch(r"return (?:\w+::)*guard\(.*\);", content, re.S):
                problems.append(f"{path}: {name} is not one guard call")
    for name in sorted(symbols - set(defined)):
        problems.append(f"lib/api: {name} is exported and not defined")
    tree.finish("guard", problems)


main()
