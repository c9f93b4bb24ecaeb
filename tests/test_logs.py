"""Log lines: fields, one line each, nothing secret."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
from typing import Any

import pytest

from gitops import logs


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_line_has_the_fields_of_its_context(stream: io.StringIO) -> None:
    logs.configure(level="info", format="json", stream=stream)
    log = logging.getLogger("gitops.test")
    with logs.bound(cluster="dgx-a", commit="abc"):
        with logs.bound(unit="function/x/h100-0@dgx-a"):
            log.info("applied %d objects", 3)
        log.warning("retrying\nsoon")
    log.debug("not shown")
    first, second = lines(stream)
    assert first["message"] == "applied 3 objects"
    assert (first["level"], first["logger"]) == ("info", "gitops.test")
    assert (first["unit"], first["cluster"], first["commit"]) == ("function/x/h100-0@dgx-a", "dgx-a", "abc")
    assert first["time"].endswith("Z")
    assert "unit" not in second
    assert second["message"] == "retrying\nsoon"


async def test_tasks_keep_their_own_context(stream: io.StringIO) -> None:
    logs.configure(level="info", format="json", stream=stream)

    async def work(cluster: str) -> None:
        with logs.bound(cluster=cluster):
            await asyncio.sleep(0)
            logging.getLogger("x").info(cluster)

    await asyncio.gather(*(work(name) for name in "abc"))
    assert all(line["cluster"] == line["message"] for line in lines(stream))


def test_traceback_is_one_line_and_redacted(stream: io.StringIO) -> None:
    logs.configure(level="info", format="json", stream=stream)
    try:
        raise OSError("cannot fetch https://bot:s3cr3t@git.example/x.git?sshkey=abc")
    except OSError:
        logging.getLogger("x").exception("fetch failed")
    (line,) = lines(stream)
    assert "https://git.example/x.git" in line["error"]
    assert "s3cr3t" not in stream.getvalue()
    assert "sshkey" not in stream.getvalue()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://bot:s3cr3t@git.example/x.git?sshkey=abc", "https://git.example/x.git"),
        ("https://token@git.example/x.git", "https://git.example/x.git"),
        ("https://a:b@c:d@git.example/x", "https://git.example/x"),
        ("ssh://git:pw@host:22/x.git failed", "ssh://host:22/x.git failed"),
        ("'https://u:p@h/x#frag', then", "'https://h/x', then"),
        ("https://git.example/x.git", "https://git.example/x.git"),
        ("mail a@b.example or git@host:x.git", "mail a@b.example or git@host:x.git"),
        ("two https://a:b@c and http://d:e@f/?q=1", "two https://c and http://f/"),
    ],
)
def test_x02_urls_are_shown_without_credentials(text: str, shown: str) -> None:
    assert logs.redact_urls(text) == shown


def test_known_secrets_are_hidden_in_every_spelling() -> None:
    redactor = logs.Redactor()
    redactor.add("p@ss/word-1\n")
    redactor.add("abc")  # too short to hide: it would blank out words
    encoded = base64.b64encode(b"p@ss/word-1").decode()
    assert redactor(f"p@ss/word-1 p%40ss%2Fword-1 {encoded} abc") == "*** *** *** abc"


def test_text_format_escapes_what_could_fake_a_line(stream: io.StringIO) -> None:
    logs.configure(level="info", format="text", stream=stream)
    logging.getLogger("x").info("a\n12:00:00 ERROR faked\x1b[31m", extra={"unit": "u"})
    (line,) = stream.getvalue().splitlines()
    assert "a\\n12:00:00 ERROR faked\\x1b[31m" in line
    assert line.endswith("unit=u")


def test_fields_are_cleaned_as_the_text_is(stream: io.StringIO) -> None:
    """A field manager is a name that anybody chooses."""
    logs.configure(level="info", format="text", stream=stream)
    logging.getLogger("x").info("a", extra={"manager": "m\n12:00:00 ERROR faked", "result": "repaired"})
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("manager=m\\n12:00:00 ERROR faked  result=repaired")


def test_auto_format_is_json_without_a_terminal(stream: io.StringIO) -> None:
    logs.configure(level="info", format="auto", stream=stream)
    logging.getLogger("x").info("hello")
    assert lines(stream)[0]["message"] == "hello"
