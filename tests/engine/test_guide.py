"""The programs of the guide, run as they stand there."""

import re
import runpy
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "engine.md"


def test_the_guide_runs(smollm2, tmp_path, capsys):
    text = GUIDE.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 5
    program = tmp_path / "guide.py"
    program.write_text("\n".join([*blocks, "engine.close()"]), encoding="utf-8")
    runpy.run_path(str(program))
    assert "holds the universe together" in capsys.readouterr().out
