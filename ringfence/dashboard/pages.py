"""What Vite built from `dashboard/`, read once and served from memory under /app/: no path of a request ever reaches
the disk. Whatever names no file is the one page, whose own router knows what it means.

Files in assets/ carry their content's hash in their names, and are kept by browsers for ever; the page is asked for
anew each time. Its policy lets it run and ask for what comes from here, and nothing else.
"""

import gzip
import hashlib
import mimetypes
import secrets
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ringfence.kernel.errors import NotFound

BUILT = Path(__file__).parent / "built"
ROOT = "/app/"
NONCE = b"__NONCE__"
KEEP = "public, max-age=31536000, immutable"
COMPRESSED = ("text/", "application/javascript", "application/json", "image/svg+xml")
# Some primitives put a style element into the page; the nonce is for those alone.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
ALONE = {
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}


@dataclass
class Asset:
    content: bytes
    media_type: str
    kept: bool

    @cached_property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'

    @cached_property
    def compressed(self) -> bytes | None:
        if not self.media_type.startswith(COMPRESSED):
            return None
        smaller = gzip.compress(self.content, 9, mtime=0)
        return smaller if len(smaller) < len(self.content) else None


class Dashboard:
    """The ASGI application under /app/."""

    def __init__(self, built: Path = BUILT) -> None:
        self._page = b""
        self._assets: dict[str, Asset] = {}
        if (built / "index.html").is_file():
            self._page = (built / "index.html").read_bytes()
            for path in built.rglob("*"):
                if path.is_file() and path.name != "index.html":
                    name = path.relative_to(built).as_posix()
                    self._assets[name] = Asset(path.read_bytes(), _media_type(path), name.startswith("assets/"))

    @property
    def is_built(self) -> bool:
        return bool(self._page)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["ringfence.route"] = ROOT
        name = scope["path"].removeprefix(ROOT)
        asset = self._assets.get(name)
        if asset is not None:
            response = self._file(asset, Headers(scope=scope))
        elif name.startswith("assets/") or not self.is_built:
            # An old page may ask for the parts of a build that is gone: a page in their place would be run as a script.
            raise NotFound(_missing(self.is_built), code="no_such_path")
        else:
            response = self._index()
        await response(scope, receive, send)

    def _index(self) -> Response:
        nonce = secrets.token_urlsafe(16)
        policy = {"content-security-policy": POLICY.format(nonce=nonce), "cache-control": "no-store"}
        return Response(self._page.replace(NONCE, nonce.encode()), headers=policy | ALONE, media_type="text/html")

    def _file(self, asset: Asset, asked: Headers) -> Response:
        headers = {"etag": asset.etag, "cache-control": KEEP if asset.kept else "no-cache", **ALONE}
        if asked.get("if-none-match") == asset.etag:
            return Response(status_code=304, headers=headers)
        content = asset.content
        if asset.compressed is not None:
            headers["vary"] = "accept-encoding"
            if "gzip" in asked.get("accept-encoding", ""):
                headers["content-encoding"], content = "gzip", asset.compressed
        return Response(content, headers=headers, media_type=asset.media_type)


def _missing(built: bool) -> str:
    return (
        "this part is of an older build: load the page anew" if built else "the dashboard is not built: run script/up"
    )


def _media_type(path: Path) -> str:
    if path.suffix == ".js":
        return "text/javascript"
    return mimetypes.guess_type(path.name)[0] or "application/octet-stream"
