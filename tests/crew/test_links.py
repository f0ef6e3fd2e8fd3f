import random
import re
import time
from base64 import b64encode, urlsafe_b64encode
from ipaddress import IPv4Address
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linkify_it import LinkifyIt

from ringfence.crew.links import LinkPolicy, external_link

POLICY = LinkPolicy(frozenset({"docs.example.com", "*.example.org", "bücher.example"}))


def b64(text: str) -> str:
    return b64encode(text.encode()).decode()


LINK = "http://evil.com/path?secret=1"
BYPASSES = [
    # the reference's own
    "http://localhost.evil.com",
    "http://localhost@evil.com",
    "http://127.0.0.1.evil.com",
    "http://172.28.evil.com",
    "ftp://evil.com/x",
    "ws://evil.com/socket",
    "gopher://evil.com",
    "//evil.com",
    "//evil.com/x.js",
    "http://[2606:4700:4700::1111]/",
    "http://134744072/",
    "http://0x8080808/",
    "http://0x08.0x08.0x08.0x08/",
    "http://010.010.010.010/",
    "http://8.526344/",
    "http://evil/",
    "http://еvil.com",  # Cyrillic
    "http://пример.рф/путь",
    "https://evil.technology",
    "http:/evil.com",
    "http:evil.com",
    "https:evil.com/x",
    "HTTP://EVIL.COM",
    r"http:\\evil.com",
    r"http:/\evil.com",
    r"\\evil.com\share",
    "h t t p : / / evil . com",
    "h t t p : / / e v i l . c o m",
    "h\nt\nt\np\n:\n/\n/\nevil.com",
    "http :// evil . technology",
    "http: //evil.com",
    "http:/ /evil.technology",
    "http:// evil.technology/x",
    "http://ev\u200bil.com",
    "h\u200bttp\u200b:\u200b//evil.technology",
    "ht\u00adtp://evil.com",
    "e\u00advil.com/x",
    "http\u202e://evil.com",
    "\u202emoc.live//:ptth",
    "http://\u2066evil.com",
    "http:/\x00/evil.com",
    "http://localhost\u200b.evil.com",
    "hxxp://evil.com",
    "hXXps://evil.com",
    "hxxp:evil.com",
    "http://evil[.]com",
    "evil[.]com/x",
    "evil(dot)com/x",
    "http[:]//evil[.]technology",
    "http[://]evil.com",
    "http%3A%2F%2Fevil.com",
    "%68%74%74%70%3a%2f%2f%65vil.com",
    "http%253A%252F%252Fevil.com",
    "http%25252525253A%2525252F%252Fevil.com",
    "http&#58;//evil.com",
    "http&colon;&sol;&sol;evil.com",
    "&#x68;&#x74;&#x74;&#x70;&#x3a;//evil.com",
    "http://evil&period;com",
    "evil&amp;amp;period;com/x",
    "&#0000000000000104;ttp://evil.com",
    r"\u0068ttp\u003a//evil.com",
    r"\x68\x74\x74\x70\x3a\x2f\x2fevil.com",
    r"http:\/\/evil.com\/x",
    r"\57\57evil.technology/x",
    "AGgAdAB0AHAAOgAvAC8AZQB2AGkAbAAuAGMAbwBt",
    "data:text/html;base64,PHNjcmlwdCBzcmM9Ly9ldmlsLnRlY2hub2xvZ3k+",
    "javascript:location='//evil.technology'",
    "![x](//evil.technology/x.png)",
    '"http" + "://evil.technology"',
    "pip install git+https://evil.com/x",
    "jdbc:mysql://evil.com/x",
    "t.me/abc",
    "evil.ru",
    "http://evil．com",
    "http://evil。com",
    "http://evil｡com",
    "ｈｔｔｐ：／／ｅｖｉｌ．ｃｏｍ",
    "evil。com/x",
    "𝐡𝐭𝐭𝐩://𝐞𝐯𝐢𝐥.𝐜𝐨𝐦",
    "h̶t̶t̶p̶:̶/̶/̶evil.com",
    "http:⁄⁄evil.com",
    "http∶//evil.com",
    "www.evil.com",
    "www.evil.py",
    "WWW.evil.technology",
    "evil.com",
    "evil.com/path?x",
    "evil.technology/path",
    "evil.com:8080",
    "evil.app:8443/x",
    "evil.com.pl/x",
    "evil.pl/?leak=1",
    "evil.sh:8080/x",
    "пример.рф",
    "bücher.de/x",
    "请看evil.com谢谢",
    "8.8.8.8:53",
    "8.8.8.8/x",
    "169.254.169.254/latest/meta-data",
    "http://169.254.169.254/latest/meta-data",
    "http://[fe80::1]/",
    "http://[fe80::1%25eth0]/",
    "http://[::ffff:8.8.8.8]/",
    "http://[::ffff:169.254.169.254]/",
    "http://[fd00:ec2::254]/latest",
    "http://100.64.0.1/",
    "http://172.32.0.1/",
    "http://192.169.0.1/",
    "http://0.0.0.0.evil.com",
    "[2606:4700:4700::1111]:80",
    # the host exactly as parsed
    "http://localhost:80@evil.com",
    "http://localhost:80%40evil.com",
    "http://localhost%2eevil.com",
    "http://localhost%2f.evil.com",
    "http://localhost%00.evil.com",
    "http://localhost%23.evil.com",
    r"http://localhost\@evil.com",
    "http://localhost#@evil.com",
    "http://localhost?@evil.com/",
    "http://localhost∕.evil.com",
    "http://localhost⁈.evil.com",
    "http://localhost℀.evil.com",
    "http://localhost,evil.com",
    "http://localhost;x.evil.com",
    "http://localhost&.evil.technology",
    "http://localhost'@evil.com",
    'http://localhost"@evil.technology/',
    "http://localhost<@evil.technology/",
    "http://a:b@localhost@evil.technology",
    "http://localhost:" + "a" * 400 + "@evil.com",
    "http://" + "a" * 5000 + "@evil.com",
    "http://localhost:evil.com",
    "http://localhost:8000.evil.com",
    "http://localhost\n.evil.com",
    "http://localhost\t.evil.bar",
    "http://localhost\n@evil.bar",
    "http://localhost .evil.bar",
    "http://[::1].evil.com",
    "http://[::1]@evil.com",
    "http://hub.ringfence.evil.com",
    "http://xhub.ringfence",
    "http://xn--localhost-",
    "http://evil.git.ringfence",
    "http://sub.localhost",
    # what attacking it found
    "h\tttp:/\t/localhostevil.technology",
    "h\tttp:010.8",
    "http:/\r134744072",
    "http:/\t%40\u200b@evil.technology",
    "https://hub'x.evil.bar",
    "https:hub+docs.evil.technology",
    "https:/hub/../\n//evil.technology",
    "http\n:\\/\\/evil.bar",
    "HTTP:/\n/localhost⁄evil.bar",
    "https:/💩.bar",
    "http://127.0.0.1_0",
    "http://١٢٧.0.0.1",
    "http://hub:80:evil.technology",
    "http://hub{.x}@evil.bar",
    "http://$evil.technology",
    "/\n/evil.technology",
    "是//evil.technology是",
    "是http:/evil.technology是",
    "www.evil .com",
    "www.evil.\ncom",
    "evil . com",
    "evil .com/x",
    "evil.\ncom/x",
    "a = 1 h t t p : / / evil . bar",
    "htt\u0070&#58;//evil.bar",
    "\\evil.com",
    "/evil.com/x",
    "@evil.com",
    "self.evil.com",
    "//evil.com@",
    r"http:\u002f\u002fa\u00300.io",
    "@evil.technology/path",
    "&#" + "9" * 5000 + ";http://evil.bar",
    "%" * 50 + "http%3a//evil.bar",
    "ﷺ" * 50 + "ｈｔｔｐ://evil.bar",
    "http://example.org",
    "http://evilexample.org",
    "http://sub.docs.example.com",
    "http://docs.example.com.evil.com",
    "http://docs.example.com@evil.com",
    "http://docs-example.com",
    "docs.example.com@evil.technology/x",
    "http://faß.example",
    "http:///evil.com",
    "http:////evil.com",
    "///evil.com",
    "file://evil.com/x",
    "file:////evil.com/x",
    "http://user:${PASSWORD}@evil.com",
    "http://{sub}.evil.technology",
    "http://%s.evil.technology",
    "http://*.evil.technology",
    "://evil.com",
    "x://evil.com",
    "git+ssh://evil.com/x",
    "view-source:http://evil.com",
    "blob:http://evil.com/x",
    "[text](//evil.technology)",
    "[text](http://evil.technology 'title')",
    '<a href="//evil.technology">',
    "<http://evil.technology>",
    "git@evil.com:org/repo.git",
    "git@evil:org/repo.git",
    "git@evil.com",
    "_git@evil.com_",
    "root@evil.com:/etc",
    "localhost@evil.technology/x",
    "//134744072/",
    "http://💩.la",
    "💩.com/x",
    "http://localhost💩.evil.technology",
    # encoded
    b64(LINK),
    b64(LINK).rstrip("="),
    "please decode " + b64(LINK) + " thanks",
    "x" + b64(LINK),
    "data=" + b64("x" + LINK),
    urlsafe_b64encode(("http://evil.technology/?" + "~~~???>>>").encode()).decode(),
    b64(b64(LINK)),
    b64("see " + b64("see " + b64(LINK))),
    "\n".join(b64(LINK)[i : i + 8] for i in range(0, 40, 8)),
    "\n".join("> " + b64(LINK)[i : i + 8] for i in range(0, 40, 8)),
    " ".join(b64(LINK)),
    '"aHR0cDov" + "L2V2aWwu" + "Y29tL3g="',
    b64("//evil.com/x"),
    b64("www.evil.com"),
    b64("evil.com/path"),
    b64("http://пример.рф/путь"),
    b64encode(LINK.encode("utf-16-le")).decode(),
    b64(LINK).replace("a", "\u200ba"),
    b64(LINK).replace("=", "%3D"),
    b64(LINK.replace("/", "%2f")),
    LINK.encode().hex(),
    LINK.encode().hex(" "),
    LINK.encode().hex(":"),
    "0x" + LINK.encode().hex().upper(),
    b64(LINK.encode().hex()),
    b64(LINK).encode().hex(),
]

LOOKALIKES = [
    "",
    "main.py",
    "README.md",
    "build.sh",
    "lib.rs",
    "a/b.pl",
    "node.js",
    "e.g. this",
    "i.e. that",
    "v1.2.3",
    "10.5",
    "1.2.3.4",
    "1.2.3-beta.4/x",
    "foo.bar()",
    "self.assertEqual(a, b)",
    "self.name = x.id",
    "self.net(x)",
    "logger.info('x')",
    "re.search(r'x', y).group(1)",
    "np.dot(a, b); plt.show()",
    "datetime.now().date()",
    "subprocess.run(['ls'], check=True)",
    "from collections.abc import Iterator",
    "import java.net.URL; java.io.File",
    "ASP.NET Core and .NET",
    "System.Net.Http.HttpClient",
    "cert.subject.CN",
    "// comment about x.y",
    "//comment",
    "//foo.bar();",
    "//self.name = 1",
    "x = a//b; y = n//obj.id",
    "//src/app:target",
    "https as a word, and http too",
    "http:// and https:// are schemes",
    "HTTP/1.1 200 OK",
    "GET /index.html HTTP/1.1",
    "http:8080",
    "scheme: http, port: 80",
    "case http: // comment about it",
    "C:/Users/x",
    r"C:\Users\x",
    r"C:\\Users\\x\\main.py",
    r"\\server\share",
    r"print('Error:\n' + x)",
    r'"Error:\\nTraceback"',
    r"re.compile(r'^\\d+\\.py$')",
    r"^https?:\/\/[^/]+\/",
    "std::vector<int>",
    "std::chrono::seconds(1)",
    "file:///workspace/x",
    "file:///workspace/src/app.py",
    "sqlite:///data.db",
    "unix:///var/run/docker.sock",
    "-v ws:/workspace",
    "a@b.com",
    "mail a@b.com, c@d.org.",
    "legit@b.com and .gitignore",
    "203.0.113.7/24 and 203.0.113.7/32.",
    "the .com domains, a .net assembly, sentence one. com port two",
    "'http://localhost'.search('x')",
    "tar.br and config.ru",
    "mailto:a@b.com?subject=x",
    "@app.get('/x')",
    "@pytest.fixture",
    "lodash@4.17.21",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    b64("just an ordinary sentence in disguise, said twice. " * 40),
    b64encode(bytes(range(256)) * 20).decode(),
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "12:30:45.123",
    "2024-01-02T12:30:45.123Z INFO ringfence.crew.links:120 started",
    'Traceback (most recent call last):\n  File "/usr/lib/python3.11/asyncio/base_events.py", line 1, in run\n'
    "    self._run_once()\nValueError: a.b: c",
    "at com.foo.Bar.baz(Bar.java:12)\nat java.base/java.lang.Thread.run(Thread.java:829)",
    "at app//org.junit.runner.JUnitCore.run(JUnitCore.java:1)",
    "goroutine 1 [running]:\nmain.main()\n\t/home/u/src/main.go:12 +0x1d",
    "at Object.<anonymous> (/app/index.js:1:2)\nat node:internal/modules/cjs/loader:1234",
    "thread 'main' panicked at src/main.rs:4:5",
    "--- a/foo.py\n+++ b/foo.py\n@@ -1,2 +1,2 @@\n-x = a.b\n+x = a.c",
    "main.py:120: error",
    "src/main.rs:4:5, lib.so.6",
    "MANIFEST.in configure.ac Makefile.am",
    "go/pkg/mod/github.com/pkg/errors@v0.9.1/errors.go:12",
    "python3.11/site-packages",
    "application/vnd.api+json",
    "203.0.113.0/24 and 0.0.0.0/0",
    "listening on 0.0.0.0:8000",
    "255.255.255.0",
    "Chrome/120.0.0.0 Safari/537.36",
    "::1 and fe80::/10 and x[1:2]",
    "and/or, his/her, n/a",
    "10 / 2 // 3",
    "done.So it is",
    "готово.Теперь дальше",
    "完成。然后",
    "f'http://{host}:{port}/x'",
    "f'http://{self.host}:{self.port}/x'",
    "http://$HOST:$PORT/ http://${HOST}/x",
    "http://%s:%d/",
    "http://<host>:8000/",
    "http://...",
    "| a | b | c |\n| - | - | - |\n| x | y | z |",
    "a b c d e f g . h i",
    "i = 0 ; j = 1 ; k = 2",
    # inside
    "http://localhost",
    "http://localhost:8000/x?y=z#w",
    "http://LOCALHOST.",
    "http://localhost...",
    "see http://localhost. So we go on",
    "see http://hub. It works",
    "(http://hub:8080), then",
    "**http://localhost**",
    "'http://localhost:8000'.rstrip('/')",
    '{"url":"http://localhost","mail":"a@b.com"}',
    "http://hub",
    "http://hub.ringfence/x",
    "https://git.ringfence/project.git",
    "git@git.ringfence:project.git",
    "http://user:password@localhost/",
    "ws://127.0.0.1:9000",
    "http://127.0.0.1",
    "http://127.1",
    "http://2130706433/",
    "http://0x7f.1",
    "http://0177.0.0.1",
    "http://[::1]:8000/",
    "http://[::ffff:127.0.0.1]/",
    "http://[fc00::1]/",
    "http://[fd12:3456::1]/",
    "http://10.1.2.3",
    "10.0.0.5:5432",
    "http://172.16.0.1 http://172.31.255.255",
    "http://192.168.1.1/x",
    "http://%6cocalhost/",
    "http%3A%2F%2Flocalhost%2Fx",
    "http://localhost/?next=http%3A%2F%2Fhub%2F",
    "http://ｌｏｃａｌｈｏｓｔ",
    "h t t p : / / l o c a l h o s t",
    "docs.example.com/x https://DOCS.example.com",
    "http://a.example.org http://a.b.example.org",
    "http://xn--bcher-kva.example http://BÜCHER.example",
    b64("http://localhost:8000/x"),
    "http://localhost\nThen the next line",
]


INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u180e\ufe0f\u202a\u202c\u2066\u2069\x00\x08\U000e0041"


@pytest.mark.parametrize("text", BYPASSES)
def test_a_link_outside_is_refused(text: str) -> None:
    assert external_link(text, POLICY)
    assert external_link(f"Look at this: {text} - it helps.\n", POLICY)
    assert external_link(f"a = 1\n\n{text}\n", POLICY)


@pytest.mark.parametrize("text", LOOKALIKES)
def test_ordinary_text_passes(text: str) -> None:
    assert external_link(text, POLICY) is None
    assert external_link(f"Look at this: {text}\n- it helps.\n", POLICY) is None


def test_the_ordinary_texts_pass_together() -> None:
    assert external_link("\n\n".join(LOOKALIKES), POLICY) is None


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("see http://evil.com now", "http://evil.com"),
        ("(http://evil.com/a(b)c), and", "http://evil.com/a(b)c"),
        ("evil.com/path?x. Then http://b.com", "evil.com/path?x"),
        ("git://evil/x, then", "git://evil/x"),
        ("http://hub/x then //evil.com/y", "//evil.com/y"),
        ("clone git@evil.com:org/repo.git", "git@evil.com:org/repo.git"),
        ("http://evil.com/" + "a" * 100, "http://evil.com/" + "a" * 63 + "…"),
        (b64("http://evil.com/x"), "http://evil.com/x"),
        ("http%3A%2F%2Fevil.com", "http://evil.com"),
    ],
)
def test_the_first_link_is_told_as_written_or_as_it_reads(text: str, link: str) -> None:
    assert external_link(text, POLICY) == link


def test_a_star_stands_for_subdomains_and_not_for_the_apex() -> None:
    policy = LinkPolicy(frozenset({"*.Example.org.", "8.8.8.8"}))
    assert external_link("http://a.b.example.org http://8.8.8.8/ 8.8.8.8:53 http://134744072", policy) is None
    assert external_link("http://example.org", policy)
    assert external_link("http://.example.org", policy)
    assert external_link("http://xexample.org", policy)


def test_without_a_policy_only_the_inside_is_allowed() -> None:
    assert external_link("http://localhost http://hub", LinkPolicy()) is None
    assert external_link("http://docs.example.com", LinkPolicy()) == "http://docs.example.com"


@st.composite
def inside_hosts(draw: st.DrawFn) -> str:
    """A host inside, in one of the notations that name it."""
    network, bits = draw(
        st.sampled_from([("127.0.0.0", 24), ("10.0.0.0", 24), ("172.16.0.0", 20), ("192.168.0.0", 16)])
    )
    address = IPv4Address(int(IPv4Address(network)) + draw(st.integers(0, 2**bits - 1)))
    a, b, c, d = address.packed
    number = int(address)
    host: str = draw(
        st.sampled_from(
            [
                str(address),
                str(number),
                hex(number),
                f"0{number:o}",
                f"{a}.{number & 0xFFFFFF}",
                f"{a:#x}.{b}.{(c << 8) + d}",
                f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
                f"[::ffff:{address}]",
                f"[::ffff:{number >> 16:x}:{number & 0xFFFF:x}]",
                "[::1]",
                f"[fd00::{c:x}:{d:x}]",
                *("localhost", "hub", "hub.ringfence", "git.ringfence"),
                *("docs.example.com", "a.example.org", "a.b.example.org", "bücher.example", "xn--bcher-kva.example"),
            ]
        )
    )
    if not host.startswith("["):
        host = "".join(
            draw(st.sampled_from([char, char.upper(), f"%{ord(char):02x}"])) if char.isascii() else char
            for char in host
        )
        host += draw(st.sampled_from(["", "."]))
    return host


@settings(deadline=None)
@given(
    host=inside_hosts(),
    scheme=st.sampled_from(["http://", "HTTPS://", "ws://", "git://", "ssh://", "ftp://", "//", "http:/", "http:"]),
    user=st.sampled_from(["", "user@", "user:password@", "evil.example:x@"]),
    port=st.sampled_from(["", ":8000"]),
    rest=st.sampled_from(["", "/", "/x.html", "?a=b", "#c", ")", ", and", ". Then", "'", '"', "\n\nThen"]),
)
def test_a_host_inside_stays_allowed_in_any_notation(host: str, scheme: str, user: str, port: str, rest: str) -> None:
    assert external_link(f"see {scheme}{user}{host}{port}{rest}", POLICY) is None


@settings(deadline=None)
@given(link=st.sampled_from(BYPASSES), data=st.data())
def test_invisible_characters_hide_no_link(link: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(link)))
        link = link[:at] + data.draw(st.sampled_from(INVISIBLE)) + link[at:]
    assert external_link(link, POLICY)


@settings(deadline=None)
@given(data=st.data(), space=st.sampled_from([" ", "\n", "\t", "\r\n", "  ", "\u3000"]))
def test_one_break_hides_no_link(data: st.DataObject, space: str) -> None:
    link = data.draw(
        st.sampled_from(["http://evil.com/x", "https://evil.technology/x", "ftp://evil.bar", "http://8.8.8.8/"])
    )
    at = data.draw(st.integers(1, len(link) - 1))
    assert external_link(f"look {link[:at]}{space}{link[at:]} now", POLICY)


LABELS = st.from_regex(r"[a-z][a-z0-9]{2,12}", fullmatch=True)
LINKS = st.builds(
    "{}://{}.{}/{}".format,
    st.sampled_from(["http", "https", "ftp", "ws"]),
    LABELS,
    st.sampled_from(["com", "technology", "io"]),
    LABELS,
)


@settings(deadline=None)
@given(link=LINKS, before=st.text(max_size=9), after=st.text(max_size=9), times=st.integers(1, 2), data=st.data())
def test_base64_hides_no_link(link: str, before: str, after: str, times: int, data: st.DataObject) -> None:
    coded = f"{before} {link} {after}".encode()
    for _ in range(times):
        coded = data.draw(st.sampled_from([b64encode, urlsafe_b64encode]))(coded)
    text = coded.decode()
    if data.draw(st.booleans()):
        text = text.rstrip("=")
    width = data.draw(st.integers(1, 80))
    glue = data.draw(st.sampled_from(["\n", " ", "\r\n", "\n> ", '" + "', "\u200b"]))
    text = glue.join(text[at : at + width] for at in range(0, len(text), width))
    assert external_link(data.draw(st.sampled_from(["", "x", "it: ", "x="])) + text, POLICY)


@settings(deadline=None)
@given(link=LINKS, data=st.data())
def test_hex_and_percent_hide_no_link(link: str, data: st.DataObject) -> None:
    separator = data.draw(st.sampled_from(["", " ", ":", ", ", "\n"]))
    assert external_link(
        link.encode().hex(separator) if len(separator) == 1 else separator.join(re.findall("..", link.encode().hex())),
        POLICY,
    )
    escape = data.draw(st.sampled_from(["%{:02x}", "%25{:02X}", "&#{};", "&#x{:x};", "\\x{:02x}", "\\u{:04x}"]))
    assert external_link(
        "".join(escape.format(ord(char)) if data.draw(st.booleans()) else char for char in link), POLICY
    )


NASTY = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=5),
    st.sampled_from(["http", "://", "//", ":", "\\", "@", ".", "evil.com", "localhost", "[", "]", "::1", "0x", "www."]),
    st.sampled_from(["%", "&#", "&#x", ";", "{", "$", "\\U00110000", "\\u{ffffff}", "999999", "xn--", "..", "?a="]),
    st.sampled_from(["\ud800", "\udfff", "\u202e", " ", "\n", "\t", "aHR0"]),
)


@settings(deadline=None)
@given(st.lists(NASTY, max_size=20).map("".join))
def test_no_text_is_too_odd(text: str) -> None:
    link = external_link(text, POLICY)
    assert link is None or 0 < len(link) <= 80


@settings(deadline=None)
@given(st.lists(NASTY, max_size=12).map("".join))
def test_no_link_that_linkify_sees_gets_by(text: str) -> None:
    """linkify-it alone as the oracle: where it finds a whole link whose host is outside, so do we."""
    hosts = [
        urlsplit(match.url).hostname for match in LINKIFY.match(text) or () if match.schema in ("http:", "https:", "//")
    ]
    if any(host and host.endswith(".com") and host != "docs.example.com" for host in hosts):
        assert external_link(text, POLICY)


LINKIFY = LinkifyIt()

HOSTILE = {
    "letters": "a",
    "dots": "a.",
    "members": "x.id ",
    "slashes": "/",
    "paths": "//a",
    "schemes": "://a ",
    "http": "http:",
    "inside": "http://hub ",
    "brackets": "http://hub/(",
    "spaces": " ",
    "loose": "http : / / a ",
    "open": "[ . ",
    "percent": "%25",
    "entities": "&amp;",
    "numbers": "&#1",
    "escapes": "\\x41",
    "at": "a@",
    "emails": "a@b.zz:x ",
    "colons": ":",
    "hex": "4a ",
    "base64": "VVVV",
    "marks": "\u0300\u0316",
    "invisible": "\u200b",
    "chinese": "中文。",
    "ligatures": "\ufdfa",
    "templates": "http://${",
    "quotes": '//a"b@c ',
    "addresses": "10.2.3.4:80 ",
    "words": "- ",
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE.keys())
def test_time_grows_with_the_text_and_no_faster(unit: str) -> None:
    def cost(size: int) -> float:
        text = (unit * size)[:size]
        best = 60.0
        for _ in range(3):
            start = time.process_time()
            external_link(text, POLICY)
            best = min(best, time.process_time() - start)
        return best

    assert cost(65_536) < 10 * cost(16_384) + 0.005  # quadratic would be 16 times as much


def test_noise_does_not_decode_to_links() -> None:
    noise = random.Random(17)
    words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"]
    assert external_link(b64encode(noise.randbytes(200_000)).decode(), POLICY) is None
    assert external_link(noise.randbytes(100_000).hex(), POLICY) is None
    assert external_link(" ".join(noise.choices(words, k=20_000)), POLICY) is None
