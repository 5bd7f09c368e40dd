#!/usr/bin/env python3
"""Print the figures by which the house is judged: size, folders, circles of modules, long functions, links.

Usage: scripts/measure.py [--circles] [--functions] [--check]
--check prints dead links, dead section references and dependencies that the client must do without only, and fails when there are any.
Tests are tests/, benches/, fuzz/, files named tests.rs, and what stands below #[cfg(test)].
"""
import collections
import os
import re
import subprocess
import sys

CRATES = ["domain", "api", "cli", "coordinator", "worker", "shared", "bench"]
LONG = 60


def tracked(*patterns):
    out = subprocess.run(["git", "ls-files", "-z", *patterns], check=True, capture_output=True, text=True).stdout
    return [name for name in out.split("\0") if name and os.path.exists(name)]


def is_test(path):
    parts = path.split("/")
    return parts[0] in ("tests", "fuzz") or "tests" in parts or parts[-1] == "tests.rs"


def split(lines):
    """The lines of a file before its tests, and the number of lines of its tests."""
    for number, line in enumerate(lines):
        following = lines[number + 1 : number + 4]
        if line.strip() == "#[cfg(test)]" and any(re.match(r"\s*mod \w+ \{", one) for one in following):
            return lines[:number], len(lines) - number
    return lines, 0


def functions(lines):
    """Name, first line and length of each function, by its indentation (rustfmt closes it at the same)."""
    start = re.compile(r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe |extern \"C\" )*fn (\w+)")
    open_at = {}
    for number, line in enumerate(lines):
        if found := start.match(line):
            open_at[found[1]] = (found[2], number)
        elif line.strip() == "}" and (indent := line[: len(line) - 1]) in open_at:
            name, first = open_at.pop(indent)
            yield name, first + 1, number - first + 1


def module(path):
    parts = path.removesuffix(".rs").split("/")[2:]
    if parts[-1] in ("mod", "lib", "main"):
        parts.pop()
    return tuple(parts)


def uses(path, text, modules):
    """Modules of the same crate that a file names in its imports or in paths, the nearest that there is."""
    text = re.sub(r"//.*", "", text)
    for found in re.finditer(r"\buse ((?:crate|super|self)[^;]*);", text):
        for flat in flatten(re.sub(r"\s+", " ", found[1])):
            yield from nearest(path, flat, modules)
    body = re.sub(r"\buse [^;]*;", "", text)
    for found in re.finditer(r"\b(?:crate|super)(?:::\w+)+", body):
        yield from nearest(path, found[0], modules)


def flatten(tree):
    at = tree.find("{")
    if at < 0:
        yield tree.split(" as ")[0].strip()
        return
    depth, item, items = 0, "", []
    for sign in tree[at + 1 : tree.rfind("}")]:
        depth += (sign == "{") - (sign == "}")
        if sign == "," and depth == 0:
            items.append(item)
            item = ""
        else:
            item += sign
    for one in items + [item]:
        if one.strip():
            yield from flatten(tree[:at] + one.strip())


def nearest(own, flat, modules):
    parts = [part.strip() for part in flat.split("::")]
    base = () if parts[0] == "crate" else own
    while parts and parts[0] in ("crate", "super", "self"):
        if parts[0] == "super":
            base = base[:-1]
        parts.pop(0)
    for end in range(len(parts), -1, -1):
        if (name := base + tuple(parts[:end])) in modules:
            if name != own and name:
                yield name
            return


def circles(graph):
    """Strongly connected parts of more than one module (Tarjan)."""
    index, low, stack, found = {}, {}, [], []
    sys.setrecursionlimit(10_000)

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            part = []
            while not part or part[-1] != node:
                part.append(stack.pop())
            if len(part) > 1:
                found.append(part)

    for node in list(graph):
        if node not in index:
            visit(node)
    return sorted(found, key=len, reverse=True)


def plain(page):
    """The text of a page without its code blocks."""
    return re.sub(r"^```.*?^```", "", open(page).read(), flags=re.S | re.M)


def anchors(page):
    """Anchors of a page's headings, as GitHub makes them."""
    for heading in re.findall(r"^#+ (.+)$", plain(page), flags=re.M):
        yield re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).replace(" ", "-")


def dead_links():
    for page in tracked("*.md"):
        for target in re.findall(r"\]\(([^)\s]+)[^)]*\)", plain(page)):
            if "://" in target or target.startswith("mailto:"):
                continue
            path, _, anchor = target.partition("#")
            path = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not os.path.exists(path) or (anchor and path.endswith(".md") and anchor not in anchors(path)):
                yield f"{page}: {target}"


def dead_sections(rust):
    """References such as `SPEC 2.4, 6.7` whose section is no heading of docs/spec.md or docs/design.md."""
    headings = {}
    for name, page in (("SPEC", "docs/spec.md"), ("DESIGN", "docs/design.md")):
        headings[name] = set(re.findall(r"^#+ (\d+(?:\.\d+)*)", open(page).read(), flags=re.M))
    number = r"\d+(?:\.\d+)*"
    for path in rust + tracked("*.md", "*.sql", "*.toml"):
        text = re.sub(r"\n\s*(?://[/!]?|--|#)?\s*", " ", open(path).read())
        for name, sections in re.findall(rf"\b(SPEC|DESIGN) ({number}(?:(?:,| and) {number})*)", text):
            for section in re.findall(number, sections):
                if section not in headings[name]:
                    yield f"{path}: {name} {section}"


def heavy():
    """Crates of the server and the database that the client, or what it shares with the coordinator, depends on."""
    for package in ("ralph-domain", "ralph-api", "ralph-cli"):
        command = ["cargo", "tree", "--locked", "-p", package, "-e", "normal", "--prefix", "none", "--format", "{p}"]
        tree = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for name in {line.split()[0] for line in tree.splitlines() if line}:
            if re.match(r"(sqlx|axum)\b", name):
                yield f"{package}: {name}"


def check():
    """Fails, and says why, when a link or a section reference leads nowhere, or the client needs the server's libraries."""
    dead = [f"dead link: {one}" for one in dead_links()]
    dead += [f"dead section: {one}" for one in dead_sections(tracked("*.rs"))]
    dead += [f"too heavy: {one}" for one in heavy()]
    print(*dead, sep="\n", end="\n" if dead else "")
    sys.exit(1 if dead else 0)


def main():
    if "--check" in sys.argv:
        check()
    rust = tracked("*.rs")
    code, tests, long, largest = 0, 0, [], (0, "")
    graphs = {crate: collections.defaultdict(set) for crate in CRATES}
    sources = {crate: {} for crate in CRATES}
    for path in rust:
        lines = open(path).read().split("\n")[:-1]
        if is_test(path):
            tests += len(lines)
            continue
        plain, own_tests = split(lines)
        code, tests = code + len(plain), tests + own_tests
        largest = max(largest, (len(plain), path))
        long += [(length, f"{path}:{first} {name}") for name, first, length in functions(plain) if length > LONG]
        crate = path.split("/")[0]
        if crate in CRATES and "/src/" in path:
            sources[crate][module(path)] = "\n".join(plain)
    parts = []
    for crate, files in sources.items():
        for name, text in files.items():
            # A folder's own module names its parts: that is no dependency of theirs on it.
            others = {other for other in uses(name, text, files) if other[: len(name)] != name}
            graphs[crate][name] |= others
        parts += [(crate, part) for part in circles(graphs[crate])]
    entries = collections.defaultdict(set)
    for path in tracked():
        names = path.split("/")
        for depth in range(len(names)):
            entries["/".join(names[:depth])].add(names[depth])
    fullest = sorted(((len(names), folder) for folder, names in entries.items() if folder != ".sqlx"), reverse=True)
    links, sections = list(dead_links()), list(dead_sections(rust))
    print(f"lines of Rust without tests   {code:>7}")
    print(f"lines of tests                {tests:>7}")
    print(f"largest file                  {largest[0]:>7}  {largest[1]}")
    full = [f"{folder} {count}" for count, folder in fullest if count > 25]
    print(f"folders over 25 entries       {len(full):>7}  {', '.join(full)}")
    big = [(crate, part) for crate, part in parts if len(part) > 3]
    sizes = ", ".join(f"{crate} {len(part)}" for crate, part in sorted(big, key=lambda one: -len(one[1])))
    print(f"circles of over 3 modules     {len(big):>7}  {sizes}")
    print(f"functions over {LONG} lines       {len(long):>7}")
    print(f"migrations                    {len(tracked('migrations/*.sql')):>7}")
    print(f"ARCHITECTURE.md, bytes        {os.path.getsize('ARCHITECTURE.md'):>7}")
    print(f"dead links                    {len(links):>7}")
    print(f"dead sections                 {len(sections):>7}")
    if "--functions" in sys.argv:
        print(*(f"{length:>5} {name}" for length, name in sorted(long, reverse=True)), sep="\n")
    if "--circles" in sys.argv:
        for crate, part in big:
            print(crate, len(part), " ".join(sorted("::".join(one) for one in part)))


main()
