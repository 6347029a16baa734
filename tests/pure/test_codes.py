"""Every message code has its page, and every page its code."""

from __future__ import annotations

import pathlib
import re

import pytest

from torchair_autofuse.messages import CODES, Reason
from torchair_autofuse.options import read_options

PAGES = pathlib.Path(__file__).parents[2] / "docs" / "codes"


def test_pages_and_codes_agree() -> None:
    assert {page.stem for page in PAGES.glob("AF*.md")} == CODES.keys()


@pytest.mark.parametrize("code", sorted(CODES))
def test_page(code: str) -> None:
    text = (PAGES / f"{code}.md").read_text(encoding="utf-8")
    lines = text.splitlines()
    assert lines[0] == f"# {code}: {CODES[code]}"
    for title in ("## Example", "## What to do"):
        assert lines.count(title) == 1
        assert lines[lines.index(title) + 2 :], f"{title} is empty"
    assert 8 <= len(lines) <= 32 and max(map(len, lines)) <= 120
    assert set(re.findall(r"\bAF\d{3}\b", text)) <= CODES.keys()


def test_index() -> None:
    text = (PAGES / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(AF\d{3})\]\((AF\d{3})\.md\) \| (.+) \|$", text, re.MULTILINE)
    assert [(code, title) for code, _, title in rows] == sorted(CODES.items())
    assert all(code == link for code, link, _ in rows)


def test_a_reason_has_a_known_code() -> None:
    assert str(Reason("AF212", "too big")) == "AF212: too big"
    with pytest.raises(ValueError, match="AF999"):
        Reason("AF999", "x")


@pytest.mark.parametrize("code", [code for code in sorted(CODES) if code.startswith("AF1")])
def test_examples_of_flags_give_their_message(code: str) -> None:
    """The example of an option's page is a variable, an empty line, and the warning it gives."""
    text = (PAGES / f"{code}.md").read_text(encoding="utf-8")
    found = re.search(r'^```text\n(\w+)="(.*)"\n\n(.*)\n```$', text, re.MULTILINE)
    assert found is not None
    variable, value, message = found.groups()
    assert [str(warning) for warning in read_options({variable: value}).warnings] == [message]
