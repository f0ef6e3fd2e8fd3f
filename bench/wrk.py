"""Load by wrk, which costs the machine little: one thread, sixteen connections, as the hub's own figures were taken."""

import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.subjects import Subject

CONNECTIONS = 16

_SCRIPT = """
local requests = {}
for line in io.lines("%(requests)s") do requests[#requests + 1] = line end
local method = "%(method)s"
local headers = { ["Content-Type"] = "application/json" %(token)s }
local sent, failed = 0, 0
request = function()
  local at = (sent %% #requests) + 1
  sent = sent + 1
  local path, body = requests[at]:match("^(%%S+) ?(.*)$")
  return wrk.format(method, path, headers, body ~= "" and body or nil)
end
done = function(summary, latency, all)
  local errors = summary.errors.status + summary.errors.read + summary.errors.timeout
  local form = '{"requests": %%d, "seconds": %%f, "errors": %%d, "p50": %%f, "p99": %%f}'
  io.write("JSON " .. string.format(form, summary.requests, summary.duration / 1e6, errors,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000) .. "\\n")
end
"""


@dataclass(frozen=True, slots=True)
class Load:
    """What wrk saw. `cpu_us` is the server's own CPU time for a request: what contention does not change."""

    per_second: float
    p50_ms: float
    p99_ms: float
    errors: int
    requests: int
    cpu_us: float


def run(subject: Subject, method: str, requests: list[tuple[str, object]], seconds: float) -> Load:
    """Send the requests (path, body) in turn, over and over, for `seconds`."""
    program = shutil.which("wrk")
    if program is None:
        raise SystemExit("wrk is missing: `apt-get install wrk`")
    with tempfile.TemporaryDirectory() as folder:
        listed, script = Path(folder, "requests"), Path(folder, "load.lua")
        listed.write_text(
            "\n".join(f"{path} {json.dumps(body) if body is not None else ''}" for path, body in requests)
        )
        token = f', ["Authorization"] = "Bearer {subject.token}"' if subject.token else ""
        script.write_text(_SCRIPT % {"requests": listed, "method": method, "token": token})
        before = subject.cpu_seconds()
        command = [program, "-t1", f"-c{CONNECTIONS}", f"-d{seconds:.0f}s", "-s", str(script), subject.url]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        spent = subject.cpu_seconds() - before
    found = re.search(r"^JSON (.*)$", output, re.M)
    assert found, output
    seen = json.loads(found[1])
    count = max(seen["requests"], 1)
    return Load(count / seen["seconds"], seen["p50"], seen["p99"], seen["errors"], count, spent / count * 1e6)
