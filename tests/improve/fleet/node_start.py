"""Starts what follows as if on a node of its own: own scratch folder, own faults, pid on disk.

`python node_start.py FOLDER NUMBER WORD...` runs this Python with the words.
"""

import os
import sys
from pathlib import Path

folder, number, *words = sys.argv[1:]
node = Path(folder) / f"node-{number}"
node.mkdir(exist_ok=True)
os.environ["ASSAY_SCRATCH"] = str(node)
os.environ.pop("ASSAY_FAULT", None)
if (fault := Path(folder) / f"node-{number}.fault").is_file():
    os.environ["ASSAY_FAULT"] = fault.read_text()
(Path(folder) / f"node-{number}.pid").write_text(str(os.getpid()))
os.execv(sys.executable, [sys.executable, *words])
