"""What the documentation says is so."""

import re
from pathlib import Path

from tests.docs_written import DOCS, written

SOURCE = Path(__file__).parent.parent / "ringfence"


def test_the_generated_parts_of_the_documentation_are_current():
    for path, text in written().items():
        assert path.read_text() == text, f"{path.name} is stale: run script/docs"


def test_every_event_that_the_code_records_is_documented():
    documented = set(re.findall(r"`([a-z_]+)`", (DOCS / "events.md").read_text()))
    recorded = set()
    for path in SOURCE.rglob("*.py"):
        recorded |= set(
            re.findall(r"""(?:record|_tell)\(\s*(?:tx,\s*)?"([a-z]+(?:_[a-z]+)+|refused)",""", path.read_text())
        )
    assert len(recorded) > 20
    assert recorded <= documented


def test_every_link_between_the_pages_leads_somewhere():
    pages = [*DOCS.glob("*.md"), DOCS.parent / "README.md"]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)|src=\"([^\"]+)\"", page.read_text()):
            link = target[0] or target[1]
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page.name} links to {link}"
