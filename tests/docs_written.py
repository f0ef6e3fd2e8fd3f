"""Writes what is generated and kept: in docs/ the HTTP reference from the endpoints, the pages of the command and the
table of settings, and the OpenAPI document from which the dashboard's client is made."""

import json
import re
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from ringfence.app import build
from ringfence.cli.document import document as cli_reference
from ringfence.kernel import errors
from ringfence.kernel.http.endpoint import Endpoint
from ringfence.kernel.http.openapi import document
from ringfence.settings import Settings

DOCS = Path(__file__).parent.parent / "docs"
HEAD = """# HTTP

Written by `script/docs` from the endpoints themselves; `/openapi.json` is the same for programs.

The hub's documented paths are at the root, Ringfence's own under `/api/v1`. Lists at the root are arrays, with a `Link`
header to the next page; under `/api/v1` they are `{"items": […], "next": cursor}`; give `cursor` and `limit`.

Send `Authorization: Bearer TOKEN`; with a token, a body is read as JSON whatever its content type, so
`curl -H "Authorization: Bearer $TOKEN" -d '{"mode":"advisory"}' …` works. Unknown fields and parameters are refused by
name. Every create takes an `Idempotency-Key`: a repeat with it is answered as the first was, and one with another body
is refused (409). A browser's cookie changes nothing without a JSON content type and the header `X-Ringfence-CSRF`.

Errors are `application/problem+json`: `detail` (and `error`) is a sentence, `code` is stable.

```
ERRORS
```
"""


def http_reference(endpoints: list[Endpoint]) -> str:
    parts = [HEAD.replace("ERRORS", _error_tree())]
    for tag in sorted({endpoint.tag for endpoint in endpoints}):
        parts.append(f"\n## {tag.capitalize()}\n")
        mine = [endpoint for endpoint in endpoints if endpoint.tag == tag]
        for endpoint in sorted(mine, key=lambda one: (one.path.startswith("/api/"), one.path, one.method)):
            parts.append(_described(endpoint))
    return "\n".join(parts)


def _error_tree() -> str:
    tree = re.search(r"(?m)^    RingfenceError\n(?:    .+\n)+", errors.__doc__ or "")
    assert tree is not None
    return textwrap.dedent(tree[0]).rstrip()


def _described(endpoint: Endpoint) -> str:
    path = re.sub(r":\w+}", "}", endpoint.path)
    lines = [f"- **`{endpoint.method} {path}`** {endpoint.summary}. {endpoint.description}".rstrip()]
    details = [f"for {endpoint.access.value}"]
    if endpoint.body is not None and endpoint.body.model_fields:
        details.append("body: " + _fields(endpoint.body.model_fields))
    if endpoint.upload:
        details.append("multipart: `file`, `uploader`?")
    if endpoint.raw:
        details.append("body: bytes")
    if endpoint.query.model_fields:
        details.append("query: " + _fields(endpoint.query.model_fields))
    if endpoint.status != 200 or endpoint.also:
        details.append("answers " + ", ".join(map(str, sorted({endpoint.status, *endpoint.also}))))
    lines.append(f"  <br><sub>{'; '.join(details)}</sub>")
    return "\n".join(lines)


def _fields(fields: dict[str, Any]) -> str:
    return ", ".join(f"`{field.alias or name}`{'' if field.is_required() else '?'}" for name, field in fields.items())


def settings_table() -> str:
    rows = ["| setting | default | |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = "" if field.is_required() or field.default in (None, "", ()) else f"`{field.default}`"
        rows.append(f"| `{name}` | {default} | {field.description} |")
    return "\n".join(rows)


def written() -> dict[Path, str]:
    with tempfile.TemporaryDirectory() as folder:
        endpoints = build(Settings(data=Path(folder))).endpoints
    schema = json.dumps(document(endpoints), indent=1, sort_keys=True, ensure_ascii=False)
    operating = (DOCS / "operating.md").read_text()
    marks = r"(<!-- settings: .*? -->\n).*?(<!-- /settings -->)"
    table = settings_table()
    operating = re.sub(marks, lambda found: f"{found[1]}\n{table}\n\n{found[2]}", operating, flags=re.S)
    return {
        DOCS / "http.md": http_reference(endpoints) + "\n",
        DOCS / "cli.md": cli_reference(),
        DOCS / "operating.md": operating,
        DOCS.parent / "dashboard" / "openapi.json": schema + "\n",
    }


def main() -> None:
    stale = [path for path, text in written().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        sys.exit(f"stale: {', '.join(path.name for path in stale)}; run script/docs" if stale else 0)
    for path, text in written().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
