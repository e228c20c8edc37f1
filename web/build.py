"""Puts the page together: its files, ONNX Runtime's, and the models, in one folder for any server.

    python web/build.py FOLDER DOCUMENTATION

DOCUMENTATION is the address of the documentation, as the page links to it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import models

HERE = Path(__file__).parent
PAGE = ["style.css", *sorted(each.name for each in HERE.glob("*.js"))]
SHARED = HERE.parent / "examples" / "training"
RUNTIME = HERE / "node_modules" / "onnxruntime-web" / "dist"
# All that a page needs to run models on the processor, of the 140 MB of the package.
WANTED = ["ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"]


def build(folder: Path, documentation: str) -> None:
    """Write the whole page into a folder; files of the same names are replaced."""
    if not RUNTIME.is_dir():
        sys.exit(f"'{RUNTIME}' is missing: run npm ci --ignore-scripts in '{HERE}'")
    (folder / "onnxruntime").mkdir(parents=True, exist_ok=True)
    for name in PAGE:
        shutil.copyfile(HERE / name, folder / name)
    page = (HERE / "index.html").read_text(encoding="utf-8")
    page = page.replace("{commands}", "\n".join(models.COMMANDS))
    page = page.replace("{documentation}", documentation)
    (folder / "index.html").write_text(page, encoding="utf-8")
    for name in ("safetensors.mjs", "training.mjs"):
        shutil.copyfile(SHARED / name, folder / name)
    for name in WANTED:
        shutil.copyfile(RUNTIME / name, folder / "onnxruntime" / name)
    models.write(folder / "models")


if __name__ == "__main__":
    build(Path(sys.argv[1]), sys.argv[2])
