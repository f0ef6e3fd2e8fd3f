"""`script/fuzz [SECONDS [TARGET...]]`: each target for so long, as many at once as there are processors."""

import os
import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fence.fuzz import core
from tests.fence.fuzz.targets import TARGETS, Broken, missing

CRASHES = Path("build/fuzz/crashes")
SKIPPED = 77


def main(words: list[str]) -> int:
    seconds = float(words[0]) if words else 60.0
    names = words[1:] or [*TARGETS, "core"]
    if unknown := set(names) - {*TARGETS, "core"}:
        print(f"script/fuzz: there is no {', '.join(sorted(unknown))}; there are {', '.join([*TARGETS, 'core'])}")
        return 2
    if (why := missing()) is not None:
        print(f"script/fuzz: {why}")
        return SKIPPED
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        broken = list(pool.map(lambda name: _fuzzed(name, seconds), names))
    return int(any(broken))


def _fuzzed(name: str, seconds: float) -> bool:
    seed = random.randrange(1 << 32)
    try:
        with tempfile.TemporaryDirectory(prefix=f"ringfence-fuzz-{name}-") as folder:
            target = TARGETS.get(name)
            if target is None:
                said = core.fuzz(seconds)
            else:
                said = target.run(target.build(Path(folder)), seconds, seed, CRASHES.absolute() / name)
    except Exception as error:
        print(f"{name} (seed {seed}): {error if isinstance(error, Broken) else repr(error)}", flush=True)
        return True
    print(f"{name}: {said}", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
