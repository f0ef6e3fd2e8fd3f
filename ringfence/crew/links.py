"""Whether a text carries a link to a host outside.

linkify-it knows the top-level domains and where a link ends; but it takes 40 ms over 64 KiB of source code, seconds
over unclosed brackets, and sees through no disguise. So patterns of our own, linear in the text, find where a link may
start, a strict reading of the authority says which host it names, and linkify-it sees only the few characters there.

    text ─ visible ─────────────── schemed                         the host as a URL parser reads it
              └─ plain ─────────── schemed, bare, remote, broken   as a person reads it: unescaped, look-alikes replaced
                    ├─ joined ──── schemed, bare, broken           with the spaces gone from "h t t p : / /"
                    └─ decoded ─── all of this again               what base64 and hex stand for, three deep

Every reading must be clean: a look-alike slash ends the host for a person, and does not for a resolver.
"""

from __future__ import annotations

import asyncio
import binascii
import html
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Literal, TypeVar
from urllib.parse import unquote

from linkify_it import LinkifyIt
from linkify_it.tlds import TLDS

T = TypeVar("T")
LONG = 2048  # characters: judging more takes longer than the event loop, or the writer's thread, may be held up


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TLDS = {tld.lower() for tld in TLDS} | {"onion", "i2p"}
_LINKIFY = LinkifyIt(options={"fuzzy_ip": True, "fuzzy_email": False}).tlds(sorted(_TLDS))
_TLDS |= {tld[4:].encode().decode("punycode") for tld in _TLDS if tld.startswith("xn--")}

_INSIDE_NAMES = frozenset({"localhost", "hub", "hub.ringfence", "git.ringfence"})
_INSIDE_NETWORKS = tuple(
    ip_network(net) for net in ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7")
)
_EC2_METADATA = IPv6Address("fd00:ec2::254")  # the one metadata service among the private addresses

# What a bare name is, its last label tells. These are files, unless asked with a query or at a port and path:
_FILES = _words("py md sh rs pl so cc ps ml mm mk tf la pm bz sv td gn gd mo cu inc pub zip mov cab java properties")
# these name hosts and little else:
_HOSTS = _words("com org net edu gov mil biz")
_REGISTRIES = _words("com co org net edu gov ac")  # evil.com.pl is no Perl script
_COUNTRIES = _words("ch cn co cz de dk es eu fr gr hu io jp kr nl ru ua uk")
# other countries and these are members of objects and modules (seen in 20,000 source files), and links with a path.
_MEMBERS = _words(
    """abc actor ads android app apps archi arpa art audio author auto aws azure baby band bar best bid bio black blue
    bms bom boo book box build builders business buzz cal call camera capital cards care case cat center channel
    chat chrome circle city claims click clinic cloud club codes coffee community company compare country coupons
    credit data date day deal degree delivery delta design dev diet direct directory discover docs dog domains dot
    download drive email energy engineer events exchange expert exposed express fail family fan farm fast feedback
    final fire fish fit foo forum foundation free fun fund fyi gal game games gap gift global gold goo google got
    graphics green group guide health help here hiphop history host hot how info ink int jobs land lat law lease
    life lighting like limited link live loan man management map market media meet menu mobile moe money name
    network new news next ninja now observer off one online open oracle origins page parts party phone pid pin ping
    pink place plus post press prime pro prod productions prof promo property protection range read red rent repair
    report rest review reviews rich rooms run safe safety sale sas save school science search secure security seek
    select services ses shell shop show site smart social solutions space spot star storage store stream studio
    style support systems tab target tax team tips today tools top total town trade training tube video vote watch
    weather website win windows wine work works world xxx xyz you zero zone"""
)
_Kind = Literal["address", "host", "name", "member", "file"]
_RECEIVERS = _words("self this cls super it os sys np pd tf io java javax asp vb ado config ctx model")

_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
_MARKS = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f\ufdfa\ufdfb]+")
_LOOKALIKES = str.maketrans(
    dict.fromkeys("。․٠۔܁܂·•∙⋅・ꓸ", ".") | dict.fromkeys("∶ː˸꞉׃։⁚", ":") | dict.fromkeys("⁄∕╱⧸⟋⧶⫽", "/")
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|u\{([0-9a-f]{1,6})\}|U([0-9a-f]{8})|([0-7]{2,3}))", re.I)
_NESTED_PERCENT = re.compile(r"%(?:25)+")
_NESTED_ENTITY = re.compile(r"&(?:amp;|#38;|#x26;)+", re.I)
_LONG_ENTITY = re.compile(r"&#(x?)(?:0+|[0-9a-f]{9,})(?=[0-9a-f;])", re.I)
_DEFANGED = re.compile(r"[\[({<]\s{0,4}(dot|[.:/]{1,3})\s{0,4}[\])}>]", re.I)
_DEFANGED_SPACED = re.compile(rf"\s{{0,4}}{_DEFANGED.pattern}\s{{0,4}}", re.I)

# Patterns begin with a rare character, and only then look back: that is what makes them fast.
_UNTIL = r"""[^\s/\\?#"'<>`]"""
# One quote may stand before an "@", as browsers take it into the user name; two are a string that ended.
_AUTHORITY = rf"""(?P<authority>{_UNTIL}{{0,300}}(?:["'<>`]{_UNTIL}{{0,100}}@{_UNTIL}{{0,300}})?)"""
# What stands off the host for a person and not for a URL parser, which drops tabs and newlines and keeps quotes.
_AFTER = r"""(?P<after>\s{1,8}[.@][\w.-]+|["'<>`\t\r][\w-]*\.[\w.-]++(?!\())?"""
_SLASHED = re.compile(rf"(?P<slashes>[/\\]{{2,}}){_AUTHORITY}{_AFTER}")
_SLASHLESS = re.compile(rf":(?<=[ps]:)[/\\]?(?![/\\]){_AUTHORITY}{_AFTER}", re.I)
_TOP = r"(?:com|org|net|edu|gov|mil|biz)"
_BROKEN = re.compile(
    r":\s*+[/\\][\s/\\@]*+(?P<host>[a-z0-9_-]{1,63}(?:\s{0,4}[.@]\s{0,4}[a-z0-9_-]{1,63}){1,12}"
    r"|[0-9]{8,10}|0x[0-9a-f]{7,8}|\[[0-9a-f:.]+\])"
    rf"|(?:\s\.\s{{0,4}}|\.\s{{1,4}}){_TOP}[/:?#]\w|\s\.\s{{1,4}}{_TOP}\b|www\.[a-z0-9-]{{1,63}}\s{{0,4}}\.\s{{0,4}}{_TOP}\b",
    re.I,
)
_SENTENCE = re.compile(r"\w[.@]\s")
_SCHEME = re.compile(r"[^\W\d_][\w+.-]{0,30}$")
# Browsers take any number of slashes after these.
_BROWSED = re.compile(r"(?:https?|hxxps?|ftp|wss?)\s*$", re.I)
_TEMPLATE = re.compile(r"\$?\{[^{}]*\}|\$\w+|%\(\w+\)[sd]|%[sdr](?![0-9a-f])", re.I)
_HOST_RUN = re.compile(r"\[[^\]]*:[^\]]*\]|[\w.%☀-➿🀀-🫿-]*")
_ASCII_RUN = re.compile(r"[^\x00-\x7f].*")
_GOES_ON = re.compile(r"\.([\w-]+)[^\w-]*$")

_NUMBER = re.compile(r"0x[0-9a-f]{1,16}|[0-9]{1,16}")
_LABEL = re.compile(r"[\w-]+")
_BARE_FORM = (
    r"(?<![LETTER])(?P<host>[LETTER]++(?:\.[LETTER]++)++)"
    r"""(?P<tail>(?::[0-9]{1,5}(?![0-9]))?(?:\.?[/?#][^\s"'<>`]{0,100})?)"""
)
_BARE_ASCII = re.compile(_BARE_FORM.replace("LETTER", "a-zA-Z0-9_-"))
_BARE = re.compile(_BARE_FORM.replace("LETTER", r"\w☀-➿🀀-🫿-"))
_CALLED = re.compile(r"\(|\s?[-+*/|&:]?=|\[")
_NETWORK = re.compile(r"/(?:3[0-2]|[12]?[0-9])(?![\w/?#-]).*")
_PORT = re.compile(r":([0-9]+)")
_QUERY = re.compile(r"\?\w+=")
_MAILED = re.compile(r"@(?<=[\w.+-]@)(?P<host>[\w.-]{1,253})(?P<path>:(?=[\w~./]))?")
_USER = re.compile(r"[a-z0-9.+-]+$", re.I)
_BARE_IPV6 = re.compile(r"\[(?<![a-z0-9\])]\[)(?P<address>[0-9a-f:.]{8,45})\](?=:\d|/)", re.I)
_LETTERED = re.compile(r"(?<!\S)\S(?:\s{1,4}+\S(?!\S)){3,}+")
_SPLIT = re.compile(r"h\s*+t\s*+t\s*+p\s*+(?:s\s*+)?:|[/\\]\s++(?=[/\\])", re.I)

# Base64 in both alphabets, and with "+", "/", "-" and "_" as mere glue between the pieces.
_TO_STANDARD, _GLUE = bytes.maketrans(b"-_", b"+/"), b"+/-_"
_NOT_BASE64 = bytes(byte for byte in range(256) if byte > 127 or not (chr(byte).isalnum() or byte in _GLUE))
_READABLE = re.compile(rb"[\t\n\r -~]{10,}")
_READABLE_IDN = re.compile(rb"://[\x80-\xff][^\0- ]+")
_HEX = re.compile(rb"[0-9a-fA-F]{20,}")


@dataclass(frozen=True)
class LinkPolicy:
    """Hosts that links may name besides the ring's own: "docs.example.com", or "*.example.com" without its apex."""

    hosts: frozenset[str] = frozenset()

    @cached_property
    def exact(self) -> frozenset[str]:
        return frozenset(str(_canonical(host)) for host in self.hosts if not host.startswith("*."))

    @cached_property
    def suffixes(self) -> tuple[str, ...]:
        return tuple(f".{_canonical(host[2:])}" for host in self.hosts if host.startswith("*."))

    def allows(self, host: str) -> bool:
        known = _canonical(host)
        if isinstance(known, str):
            return known in _INSIDE_NAMES or known in self.exact or known.endswith(self.suffixes)
        if known is None or str(known) in self.exact:
            return known is not None
        return known != _EC2_METADATA and any(known in net for net in _INSIDE_NETWORKS)


async def beside(judge: Callable[[], T], length: int) -> T:
    """What `judge` says about texts of so many characters, found beside the event loop when they are long."""
    return judge() if length < LONG else await asyncio.to_thread(judge)


def external_link(text: str, policy: LinkPolicy) -> str | None:
    """The first link to a host outside, as written (as it reads, if it came in disguise), or None."""
    link = _external(text, policy, depth=0)
    return link if link is None or len(link) <= 80 else f"{link[:79]}…"


def _external(text: str, policy: LinkPolicy, depth: int) -> str | None:
    visible = _INVISIBLE.sub("", text)
    plain = _plain(visible)
    readings = [reading(plain, policy) for reading in (_schemed, _bare, _remote, _broken)]
    if plain != visible:
        readings.append(_schemed(_SPLIT.sub(_joined, visible), policy))
    joined = _LETTERED.sub(_joined, _SPLIT.sub(_joined, plain))
    if joined != plain:
        readings += [reading(joined, policy) for reading in (_schemed, _bare, _broken)]
    if "\u202e" in text:
        readings.append(_schemed(plain[::-1], policy))
    if found := [first for reading in readings if (first := next(reading, None))]:
        return min(found)[1]
    nested = (_external(decoded, policy, depth + 1) for decoded in _decoded(plain) if decoded) if depth < 3 else ()
    return next((link for link in nested if link), None)


def _plain(text: str) -> str:
    """The text as a person or a forgiving program reads it: unescaped, refanged, look-alikes replaced."""
    for _ in range(3):
        before = text
        if "%" in text:
            text = unquote(_NESTED_PERCENT.sub("%", text))
        if "&" in text:
            text = html.unescape(_NESTED_ENTITY.sub("&", _LONG_ENTITY.sub(r"&#\1", text)))
        if "\\" in text:
            text = _ESCAPE.sub(_unescaped, text)
        if text == before:
            break
    if not text.isascii():  # in pieces, as normalizing is quadratic in a run of marks
        text = _MARKS.sub("", text)
        text = "".join(unicodedata.normalize("NFKC", text[i : i + 64]) for i in range(0, len(text), 64))
        text = text.translate(_LOOKALIKES)
    text = _INVISIBLE.sub("", text)
    if _DEFANGED.search(text):
        text = _DEFANGED_SPACED.sub(lambda match: "." if "o" in match[1].lower() else match[1], text)
    return text


def _is_word(character: str) -> bool:
    return character.isascii() and character.isalnum()  # in Chinese a link needs no space about it


def _joined(run: re.Match[str]) -> str:
    return "".join(run[0].split())


def _unescaped(escape: re.Match[str]) -> str:
    code = int(escape[5], 8) if escape[5] else int(next(filter(None, escape.groups())), 16)
    return chr(code) if code <= 0x10FFFF else ""


def _schemed(text: str, policy: LinkPolicy) -> Iterator[tuple[int, str]]:
    """Links with "//" or a scheme. After a scheme any host counts; after "//" alone only what looks like one."""
    for match in _SLASHED.finditer(text):
        authority, after, start = match["authority"], match["after"] or "", match.start()
        colon = start > 0 and text[start - 1] == ":"
        if not authority or (not colon and "." not in authority and not authority[0].isdigit() and authority[0] != "["):
            continue
        slashes = match["slashes"].replace("\\/", "/")  # JSON may write "/" as "\/"
        scheme = _SCHEME.search(text, max(0, start - 32), start - 1) if colon else None
        browsed = scheme is not None and _BROWSED.fullmatch(scheme[0]) is not None
        if len(slashes) < 2 and not browsed:
            continue
        strict = browsed or (scheme is not None and len(scheme[0]) > 1 and slashes == "//")
        code = not strict and (_is_word(text[start - 1 : start]) or _CALLED.match(text, match.end()) is not None)
        if _leaves(authority, after, policy, strict=strict, code=code):
            yield _written(text, scheme.start() if scheme else start)
    for match in _SLASHLESS.finditer(text):
        scheme = _BROWSED.search(text, max(0, match.start() - 5), match.start())
        word = scheme is not None and not _is_word(text[max(0, scheme.start() - 1) : scheme.start()])
        if scheme and word and _leaves(match["authority"], match["after"] or "", policy, strict=False, code=False):
            yield _written(text, scheme.start())


def _leaves(authority: str, after: str, policy: LinkPolicy, *, strict: bool, code: bool) -> bool:
    """Whether an authority, read as a URL parser would, names a host outside."""
    if len(authority) >= 300:
        return strict
    known = _TEMPLATE.sub("", authority)  # "{host}:{port}" names nothing yet, "{x}.evil.com" does
    if strict and known == authority and known.endswith("@"):
        return True
    location = known.rstrip("@").rpartition("@")[2]
    run = _host_run(location)
    host = run.rstrip(".-_")
    goes_on = _GOES_ON.search(location, len(run))  # "localhost,evil.com" is one name for a resolver
    inside = policy.allows(host)
    if (strict or inside) and goes_on and goes_on[1].lower() in _TLDS:
        return True
    if inside:
        joined = f"{host}{''.join(after.split())}".rpartition("@")[2]
        return joined != host and _kind(joined) not in (None, "file")
    if strict:
        return host != "" and (known == authority or "." in host)
    kind = _kind(host) or _kind(_ASCII_RUN.sub("", host)) or _kind(_host_run(known))
    code = code or _CALLED.match(location, len(run)) is not None
    return kind in ("host", "address") or (kind is not None and not code)


def _host_run(location: str) -> str:
    run = _HOST_RUN.match(location)
    return run[0] if run else ""


def _bare(text: str, policy: LinkPolicy) -> Iterator[tuple[int, str]]:
    """Names and addresses that nothing marks as a link: "evil.com/path", "8.8.8.8:53"."""
    for pattern in (_BARE_ASCII,) if text.isascii() else (_BARE_ASCII, _BARE):
        for match in pattern.finditer(text):
            host, start = match["host"].strip("-_"), match.start()
            last = host[host.rfind(".") + 1 :].lower()
            if last not in _TLDS and not last[:1].isdigit():
                continue
            before, called = text[max(0, start - 2) : start], _CALLED.match(text, match.end()) is not None
            if _stands_for_host(host, match["tail"], before, called) and not policy.allows(host):
                yield _written(text, start)


def _stands_for_host(host: str, tail: str, before: str, called: bool) -> bool:
    kind, labels = _kind(host), host.lower().split(".")
    port, path = int((_PORT.match(tail) or "00")[1]), "/" in tail or _QUERY.search(tail) is not None
    if kind is None:
        return False
    if before[-1:] in ("/", "\\"):  # a step of a path, unless there is no step before it
        return kind == "host" and before[:-1] in ("", " ", "\n", '"', "'", "(", "`")
    if before[-1:] == "@" and (before[:-1].isalnum() or not tail):  # an email or a decorator
        return tail[:1] in (":", "/") if before[:-1].isalnum() else kind == "host"
    if labels[0] == "www" and len(labels) > 2:
        return True
    if kind == "address":
        return tail != "" and len(labels) == 4 and _NETWORK.fullmatch(tail) is None
    if kind == "file":
        return _QUERY.search(tail) is not None or (port > 0 and path)
    member = len(labels) == 2 and labels[0] in _RECEIVERS
    if (path and not member) or port in (80, 443) or port >= 1024:
        return True
    if member or (called and labels[-1] != "com"):
        return False
    return kind == "host" or (kind == "name" and "_" not in host and host.rpartition(".")[2].islower())


def _remote(text: str, policy: LinkPolicy) -> Iterator[tuple[int, str]]:
    """What only programs take for an address: "git@evil.com:repository", "[2606:4700::1111]:80"."""
    for match in _MAILED.finditer(text):
        git = text[max(0, match.start() - 3) : match.start()].lower() == "git"
        if (git or (match["path"] and _kind(match["host"]))) and not policy.allows(match["host"].rstrip(".-_")):
            user = _USER.search(text, max(0, match.start() - 64), match.start())
            if match["path"] or (user and user[0].strip(".").lower() == "git"):
                yield _written(text, user.start() if user else match.start())
    for match in _BARE_IPV6.finditer(text):
        host = f"[{match['address']}]"
        if _canonical(host) and not policy.allows(host):
            yield _written(text, match.start())


def _broken(text: str, policy: LinkPolicy) -> Iterator[tuple[int, str]]:
    """Links with spaces about their punctuation: "http: //evil . com"."""
    for match in _BROKEN.finditer(text):
        if match["host"] is None:
            yield match.start(), match[0].strip()
            continue
        scheme = _BROWSED.search(text, max(0, match.start() - 12), match.start())
        host = "".join(match["host"].split()).rpartition("@")[2]
        link = text[scheme.start() : match.end()] if scheme else ""
        looks = ("host", "name", "address", *(() if _SENTENCE.search(match["host"]) else ("member", "file")))
        if len(link.split()) > 1 and _kind(host) in looks and not policy.allows(host):
            yield match.start(), link


@lru_cache(maxsize=1024)
def _kind(host: str) -> _Kind | None:
    """What a name is by its looks, when no scheme says that it is a host."""
    if host.startswith("["):
        return "address" if _canonical(host) else None
    labels = host.strip("-_.").lower().split(".")
    last = labels[-1]
    if last[:1].isdigit():
        number = _ipv4(labels)
        odd = len(labels) == 4 or any(label[:1] == "0" != label for label in labels) or "." not in host
        return "address" if number is not None and odd and int(number) >= 1 << 24 else None
    if last not in _TLDS or len(labels) < 2:
        return None
    if last in _HOSTS or (labels[-2] in _REGISTRIES and len(labels) > 2):
        return "host"
    if last in _FILES:
        return "file"
    return "member" if last in _MEMBERS or (len(last) == 2 and last.isascii() and last not in _COUNTRIES) else "name"


@lru_cache(maxsize=1024)
def _canonical(host: str) -> str | IPv4Address | IPv6Address | None:
    """A host as a resolver knows it, whatever its notation; None where there is none."""
    for _ in range(3 if "%" in host else 0):
        host = unquote(host)
    host = unicodedata.normalize("NFKC", _INVISIBLE.sub("", host)).replace("。", ".").lower().removesuffix(".")
    try:
        if host.startswith("["):
            address = IPv6Address(host.strip("[]").partition("%")[0])
            return address.ipv4_mapped or address
    except ValueError:
        return None
    labels = host.split(".")
    if labels[-1][:1].isdigit():
        return _ipv4(labels)
    if not all(_LABEL.fullmatch(label) for label in labels):
        return None
    return ".".join(label if label.isascii() else f"xn--{label.encode('punycode').decode()}" for label in labels)


def _ipv4(labels: list[str]) -> IPv4Address | None:
    """An address in any notation of inet_aton: 127.1, 0x7f000001, 0177.0.0.1."""
    try:
        if not all(_NUMBER.fullmatch(label) for label in labels):
            return None
        *bytes_, rest = [int(n, 16 if n[:2] == "0x" else 8 if n[:1] == "0" and n != "0" else 10) for n in labels]
        if len(bytes_) > 3 or max(bytes_, default=0) > 255 or rest >= 1 << 8 * (4 - len(bytes_)):
            return None
        return IPv4Address(sum(byte << 8 * (3 - i) for i, byte in enumerate(bytes_)) + rest)
    except ValueError:
        return None


def _written(text: str, start: int) -> tuple[int, str]:
    """The link that starts there, up to where linkify-it or else the next space ends it."""
    piece = text[start : start + 120]
    for match in _LINKIFY.match(piece) or ():
        if match.index == 0:
            return start, match.raw
    return start, piece.split()[0].rstrip(".,;:!?)]}\"'>")


def _decoded(text: str) -> Iterator[str]:
    """The readable parts of what base64 and hex in the text stand for, wherever they start and are broken."""
    raw = text.encode("ascii", "ignore")
    dense = raw.replace(b"0x", b"").replace(b"\\x", b"").translate(None, b" \t\r\n:,;-'\"+")
    for run in _HEX.findall(dense):
        for offset in (0, 1):
            yield _readable(binascii.unhexlify(run[offset : len(run) - (len(run) - offset) % 2]))
    for others in (_NOT_BASE64, _NOT_BASE64 + _GLUE):
        flat = raw.translate(_TO_STANDARD, others)
        for offset in range(4 if len(flat) > 12 else 0):
            yield _readable(binascii.a2b_base64(flat[offset:] + b"A" * (-(len(flat) - offset) % 4)))


def _readable(octets: bytes) -> str:
    octets = octets.replace(b"\0", b"")  # UTF-16
    runs = _READABLE.findall(octets) + [b"http" + link for link in _READABLE_IDN.findall(octets)]
    return b"\n".join(runs).decode("utf-8", "ignore")
