"""Memory of a process, as Linux counts it."""

import re
from pathlib import Path

MEGABYTE = 1 << 20


def memory(pid: int) -> tuple[float, float]:
    """MB of a process: resident, and with shared pages in proportion. Raises OSError where it has ended."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    kilobytes = dict(re.findall(r"^(Rss|Pss): +(\d+) kB$", text, re.MULTILINE))
    return int(kilobytes["Rss"]) * 1024 / MEGABYTE, int(kilobytes["Pss"]) * 1024 / MEGABYTE


def mapped(pid: int, folder: Path) -> float:
    """MB that a process holds of the files below a folder, shared pages in proportion."""
    folder = folder.resolve()  # as the system names it
    held, below = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            below = f" {folder}/" in line
        elif below and line.startswith("Pss:"):
            held += int(line.split()[1])
    return held * 1024 / MEGABYTE
