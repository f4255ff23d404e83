# SPDX-License-Identifier: Apache-2.0
"""Compares three things: who may use whom (ALLOWED, as docs/internals/rooms.md says), what each
room's CMakeLists.txt USES, and what its files really include. Prints the include matrix."""

import re

import tree

ALLOWED = {
    "core": set(),
    "image": {"core"},
    "text": {"core"},
    "checkpoint": {"core"},
    "bundle": {"core"},
    "compute": {"core"},
    "npu": {"core"},
    "npu/soft": {"core", "bundle", "compute", "npu"},
    "model/sam3": {"core", "image", "text", "checkpoint", "bundle", "compute", "npu"},
    "model/embeddinggemma2": {"core", "checkpoint", "bundle", "compute", "npu"},
    "engine": {"core", "image", "text", "checkpoint", "bundle", "compute", "npu", "npu/soft",
               "model/sam3", "model/embeddinggemma2"},
    "api": {"core", "image", "text", "checkpoint", "bundle", "compute", "npu", "model/sam3",
            "model/embeddinggemma2", "engine"},
}
# Third-party headers: only in .cc and -inl.h files of these rooms.
THIRD_PARTY = {
    "oneapi/": {"compute"},
    "hwy/": {"compute", "image"},
    "jpeglib.h": {"image"},
    "jerror.h": {"image"},
    "png.h": {"image"},
    "zlib.h": {"image"},
    "simdjson.h": {"core"},
    "openssl/": {"core"},
    "utf8proc.h": {"text"},
}


def room_of(path):
    """The longest room name that path (below lib/) starts with."""
    names = [room for room in ALLOWED if path.startswith(room + "/")]
    return max(names, key=len) if names else None


def main():
    problems = []
    seen = {room: set() for room in ALLOWED}
    for path in tree.files():
        if path.parts[0] != "lib" or path.suffix not in (".h", ".cc"):
            continue
        inside = "/".join(path.parts[1:])
        room = room_of(inside)
        if room is None:
            problems.append(f"{path}: lies in no known room")
            continue
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if not match:
                continue
            target = match.group(2)
            other = room_of(target)
            if other is not None and other != room:
                seen[room].add(other)
                if other not in ALLOWED[room]:
                    problems.append(f"{path}:{number}: {room} must not use {other}")
            for header, owners in THIRD_PARTY.items():
                if target == header or (header.endswith("/") and target.startswith(header)):
                    if room not in owners:
                        problems.append(f"{path}:{number}: {target} is not for room {room}")
                    elif path.suffix == ".h" and not path.name.endswith("-inl.h"):
                        problems.append(f"{path}:{number}: {target} in a header")
            if target == "npuseg.h" and room != "api":
                problems.append(f"{path}:{number}: only api sees the public header")
    for room in ALLOWED:
        lists = tree.ROOT / "lib" / room / "CMakeLists.txt"
        if not lists.exists():
            problems.append(f"lib/{room}: has no CMakeLists.txt")
            continue
        match = re.search(r"\bUSES\s+([a-z0-9_/ \n]+?)\s*(?:LIBRARIES|DEFINITIONS|SOURCES|\))",
                          lists.read_text())
        uses = set(match.group(1).split()) if match else set()
        for other in sorted(uses - ALLOWED[room]):
            problems.append(f"lib/{room}/CMakeLists.txt: USES {other}, which is not allowed")
        # A used room that is not included directly is needed by a header of another used room.
        for other in sorted(seen[room] - uses):
            problems.append(f"lib/{room}/CMakeLists.txt: includes {other} without USES")
        print(f"{room:12} uses {' '.join(sorted(seen[room])) or 'nothing'}")
    page = tree.text("docs/internals/rooms.md")
    for room, allowed in ALLOWED.items():
        words = ", ".join(f"`{name}`" for name in ALLOWED if name in allowed) or "nothing"
        if not re.search(rf"^\| `{re.escape(room)}` \|[^|]*\| {re.escape(words)} \|$", page, re.M):
            problems.append(f"docs/internals/rooms.md: no row of `{room}` that may use {words}")
    tree.finish("rooms", problems)


main()
