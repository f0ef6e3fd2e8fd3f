"""A server in a process of its own, that measures how long its event loop stands still: `python -m … FOLDER`.

Says where it listens; then, for each line of input, the longest stall since the line before, in milliseconds. With
`--idle` there is no server: the same loop with nothing to do, whose stalls are those of the machine.
"""

import asyncio
import json
import os
import sys
import threading
import time
from pathlib import Path

from ringfence.fence.runtimes.native.boxes import Boxes
from ringfence.fence.runtimes.native.runtime import Native
from ringfence.fence.runtimes.native.tools import Tools
from ringfence.settings import Settings
from tests.harness import Ringfence

TICK = 0.002


class Stalls:
    def __init__(self) -> None:
        self.longest = 0.0

    async def measure(self) -> None:
        """How much later than wanted it is its turn, without what it waited for a processor: that is the machine's."""
        told = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
        while True:
            began, waited = time.monotonic(), _waited(told)
            await asyncio.sleep(TICK)
            late = time.monotonic() - began - TICK - (_waited(told) - waited)
            self.longest = max(self.longest, late)

    def since(self) -> float:
        longest, self.longest = self.longest, 0.0
        return longest * 1000


def _waited(schedstat: int) -> float:
    return int(os.pread(schedstat, 100, 0).split()[1]) / 1e9


def tell(what: object) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    stalls = Stalls()
    if sys.argv[1] == "--idle":
        threading.Thread(target=lambda: asyncio.run(stalls.measure()), daemon=True).start()
        tell({})
    else:
        folder = Path(sys.argv[1])
        runtime = Native(Boxes(folder / "sandboxes", Tools.find()))
        settings = Settings(data=folder / "data", port=0, log_level="error", sandbox_grace=0)
        server = Ringfence(settings, Path(sys.argv[2]), runtime)
        asyncio.run_coroutine_threadsafe(stalls.measure(), server.loop)
        tell({"url": server.url, "token": server.admin_token})
    for _ in sys.stdin:
        tell(stalls.since())
    if sys.argv[1] != "--idle":
        server.close()


if __name__ == "__main__":
    main()
