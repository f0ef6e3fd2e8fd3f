"""What a warden costs: it has to run in any image, and a thousand times over."""

import struct
from pathlib import Path

import pytest

from tests.fence.warden.wire import Warden
from warden import build

NUMBERS = {"x86_64": 62, "aarch64": 183}
INTERPRETER = 3
MOST_RESIDENT = 300 << 10


@pytest.mark.parametrize("machine", ["x86_64", pytest.param("aarch64", marks=pytest.mark.long)])
def test_every_program_is_small_and_needs_no_library(machine: str, tmp_path: Path) -> None:
    if not build.has_compiler(machine):
        pytest.skip(f"no compiler for {machine}: `pip install ziglang`")
    build.compile_to(tmp_path, machine)
    assert {path.name for path in tmp_path.iterdir()} == set(build.PROGRAMS)
    for path in tmp_path.iterdir():
        program = path.read_bytes()
        assert len(program) < 100_000
        assert program[:5] == b"\x7fELF\2"
        assert struct.unpack_from("<H", program, 18) == (NUMBERS[machine],)
        start, size, count = *struct.unpack_from("<Q", program, 32), *struct.unpack_from("<HH", program, 54)
        kinds = [struct.unpack_from("<I", program, start + size * number)[0] for number in range(count)]
        assert kinds and INTERPRETER not in kinds, "it asks for a loader"


@pytest.mark.parametrize("user", ["root"], indirect=True)
def test_a_warden_that_has_done_its_work_is_small_again(warden: Warden) -> None:
    server = warden.greet()
    for _ in range(3):
        assert len(server.shell("seq 1 300000").out) > 1 << 20
    assert server.act("list", path=b"/usr/bin").ended["cause"] == "exited"
    [pid] = warden.pids()
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    [resident] = [int(line.split()[1]) << 10 for line in lines if line.startswith("Rss:")]
    assert resident < MOST_RESIDENT
