"""Log lines: one event each, one line each, as text or as JSON."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.world import at

from samara import log
from samara.kube.errors import Unreachable


@contextmanager
def written(form: str = "text", level: str = "info") -> Iterator[io.StringIO]:
    """Captures stderr inside the context, and restores logging afterwards."""
    root, ours, stderr = logging.getLogger(), logging.getLogger("samara"), sys.stderr
    handlers, levels = list(root.handlers), (root.level, ours.level)
    sys.stderr = stream = io.StringIO()
    root.handlers = []
    try:
        log.configure(form, level)
        yield stream
    finally:
        sys.stderr = stderr
        root.handlers = handlers
        root.setLevel(levels[0])
        ours.setLevel(levels[1])


def text_of(event: str, **fields: object) -> str:
    """One line of text without its time."""
    with written() as stream:
        log.info(event, **fields)
    return stream.getvalue().split(" ", 1)[1]


def test_a_line_is_time_level_event_and_fields() -> None:
    with written() as stream:
        log.info("synced", sources=3)
    time, rest = stream.getvalue().split(" ", 1)

    assert len(time) == len("2026-11-15T10:00:00.000Z")
    assert time.endswith("Z")
    assert rest == "info    synced sources=3\n"


def test_an_event_without_fields_is_a_line_too() -> None:
    assert text_of("stopped") == "info    stopped\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("two words", '"two words"'),
        ('a "quote"', '"a \\"quote\\""'),
        ("a=b", '"a=b"'),
        ("", '""'),
        ("two\nlines", '"two\\nlines"'),
        ("carriage\rreturn", '"carriage\\rreturn"'),
        ("tab\there", '"tab\\there"'),
        ("\x1b[31mred", '"\\u001b[31mred"'),
        ("line\u2028separator", '"line\\u2028separator"'),
        ("é", "é"),
        (7, "7"),
        (0.5, "0.5"),
        (True, "True"),
        (None, "None"),
        (at("a", "db"), '"Secret a/db"'),
        (Unreachable("no answer"), '"no answer"'),
    ],
)
def test_values_are_quoted_if_necessary(value: object, shown: str) -> None:
    assert text_of("event", field=value) == f"info    event field={shown}\n"


@given(st.text(), st.text())
def test_an_event_is_always_one_line(one: str, other: str) -> None:
    for form in ("text", "json"):
        with written(form) as stream:
            log.warning("event", one=one, other=other)
        (line,) = stream.getvalue().splitlines()
        if form == "json":
            fields = json.loads(line)
            assert (fields["one"], fields["other"]) == (one, other)


def test_a_librarys_warning_of_several_lines_is_one_line() -> None:
    for form in ("text", "json"):
        with written(form) as stream:
            logging.getLogger("aiohttp").warning("first\nsecond\r\nthird %s", "x")
        assert len(stream.getvalue().splitlines()) == 1


def test_json_keeps_numbers_and_names_the_rest() -> None:
    with written("json") as stream:
        log.warning("watch.failed", kind=at("a", "db").kind, again=True, count=3, wait=0.5, fault=None)
    fields = json.loads(stream.getvalue())
    del fields["time"]

    assert fields == {
        "level": "warning",
        "event": "watch.failed",
        "kind": "v1/Secret",
        "again": True,
        "count": 3,
        "wait": 0.5,
        "fault": None,
    }


@pytest.mark.parametrize(("level", "events"), [("debug", 3), ("info", 2), ("warning", 1)])
def test_the_level_is_a_choice(level: str, events: int) -> None:
    with written(level=level) as stream:
        log.debug("a")
        log.info("b")
        log.warning("c")

    assert len(stream.getvalue().splitlines()) == events


def test_only_warnings_of_libraries_are_logged() -> None:
    with written(level="debug") as stream:
        logging.getLogger("asyncio").info("chatter")
        logging.getLogger("asyncio").warning("trouble")

    assert "chatter" not in stream.getvalue()
    assert "trouble" in stream.getvalue()
