"""Which sandboxes of a data folder live, for who asks while no server runs."""

from dataclasses import dataclass
from pathlib import Path

from ringfence.fence.runtimes.native.box import NAME, Box
from ringfence.privileges.folder import SANDBOXES


@dataclass(frozen=True, slots=True)
class Living:
    id: str
    name: str
    box: Box


def living(data: Path) -> list[Living]:
    """Oldest first; what the kernel says, not what any database does."""
    folder = data / SANDBOXES / "boxes"
    try:
        boxes = [Box(path) for path in sorted(folder.iterdir()) if NAME.fullmatch(path.name)]
    except FileNotFoundError:
        return []
    return [Living(box.sandbox, _name(box), box) for box in boxes if box.life() is not None]


def _name(box: Box) -> str:
    record = box.record
    return box.sandbox if record is None else str(record["blueprint"]["hostname"])
