#!/usr/bin/env python3
"""Measures Ralph as one more system of a harness that measures task queues on the same work and the same servers.

scripts/bench-peers.py DIR: DIR holds the harness (setup.sh, run.sh, run.py, and a README that says what it installs). What it
knows stays as it is: RUNS, ONLY, MAX_SECONDS, RESULTS, and PEERS_DIR, which other users than root have to be able to enter.
`ralph-bench` and `ralph-coordinator` have to be built (`make bench-peers` does so).
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

RALPH = pathlib.Path(__file__).resolve().parent.parent / "target" / "release" / "ralph-bench"
# Where the harness lists its systems, and what is put in front of them.
ADDED = [
    ("PROG = {", f'PROG = {{"ralph": ["{RALPH}", "peer"], '),
    ("W1 = [", 'W1 = [("Ralph", "ralph", "", N1), '),
    ("W2 = [", 'W2 = [("Ralph", "ralph", ""), '),
    ("W3 = [", 'W3 = [("Ralph", "ralph", ""), '),
]


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    harness = pathlib.Path(sys.argv[1])
    if not (harness / "run.py").is_file():
        print(f"error: {harness} holds no harness (run.py); name its folder: make bench-peers DIR=…", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="ralph-peers-") as own:
        # It copies its programs from here, and other users read them.
        os.chmod(own, 0o755)
        copy = pathlib.Path(own) / "harness"
        shutil.copytree(harness, copy)
        for path in [copy, *copy.rglob("*")]:
            path.chmod(path.stat().st_mode | 0o200)
        driver = (copy / "run.py").read_text()
        for before, after in ADDED:
            if driver.count(before) != 1:
                print(f"error: the harness lists no systems as `{before}`; it is of another form", file=sys.stderr)
                return 1
            driver = driver.replace(before, after)
        (copy / "run.py").write_text(driver)
        environment = {**os.environ, "SRC_DIR": str(copy)}
        for step in ["setup.sh", "run.sh"]:
            ended = subprocess.run(["bash", str(copy / step)], env=environment, check=False)
            if ended.returncode != 0:
                return ended.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
