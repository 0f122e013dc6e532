"""The audit log as the benchmark reads it."""

import json
from pathlib import Path

from samara_devtools.bench.audit import (
    AuditLog,
    Counts,
    Entry,
    MissingWrites,
    column,
    count,
    creations,
    entry_of,
    first_writes,
    last_writes,
    of_user,
)


def line(**given: object) -> bytes:
    event: dict[str, object] = {
        "kind": "Event",
        "level": "Metadata",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/a/secrets?fieldManager=x",
        "verb": "create",
        "user": {"username": "controller", "groups": ["system:masters"]},
        "userAgent": "samara/0.1.0 (linux)",
        "objectRef": {"resource": "secrets", "namespace": "a", "name": "db", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 201},
        "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
        "stageTimestamp": "2026-01-01T00:00:00.012500Z",
    }
    return json.dumps({**event, **given}).encode()


def request(verb: str = "create", resource: str = "secrets", **given: object) -> Entry:
    values: dict[str, object] = {
        "user": "controller",
        "agent": "samara/0.1.0",
        "verb": verb,
        "resource": resource,
        "subresource": "",
        "namespace": "a",
        "name": "db",
        "code": 200,
        "began": 1.0,
        "ended": 2.0,
    }
    return Entry(**{**values, **given})  # type: ignore[arg-type]


def test_a_line_becomes_an_entry_with_times_to_the_microsecond() -> None:
    entry = entry_of(line())
    assert entry is not None
    assert (entry.user, entry.agent, entry.verb, entry.name, entry.code) == (
        "controller",
        "samara/0.1.0",
        "create",
        "db",
        201,
    )
    assert round(entry.ended - entry.began, 6) == 0.0125


def test_a_watch_counts_once_and_when_it_opens() -> None:
    assert entry_of(line(verb="watch", stage="ResponseStarted")) is not None
    assert entry_of(line(verb="watch", stage="ResponseComplete")) is None


def test_a_request_that_names_no_object_is_read_too() -> None:
    entry = entry_of(line(verb="get", requestURI="/version", objectRef={}))
    assert entry is not None
    assert entry.resource == ""


def test_a_dry_run_is_recognised_by_its_url() -> None:
    entry = entry_of(line(requestURI="/api/v1/namespaces/a/secrets?dryRun=All"))
    assert entry is not None
    assert column(entry) == "dry_runs"


def test_leases_events_and_status_have_their_own_columns() -> None:
    entries = [
        request(),
        request("update", code=409),
        request("get"),
        request("watch"),
        request("update", "leases"),
        request("get", "leases"),
        request("create", "events"),
        request("patch", "things", subresource="status"),
        request("delete"),
    ]
    assert count(entries) == Counts(writes=3, reads=2, events=1, status=1, leases=2, failed=1)


def test_only_good_writes_of_the_name_count_as_copies() -> None:
    entries = [
        request(namespace="a", ended=5.0),
        request("update", namespace="a", ended=4.0),
        request(namespace="b", code=409),
        request(namespace="c", name="other"),
        request("get", namespace="d"),
        request(namespace="e", is_dry_run=True),
        request(namespace="f", resource="configmaps"),
    ]
    assert last_writes(entries, "db") == {"a": 5.0}
    assert first_writes(entries, "db") == {"a": entries[1]}


def test_entries_are_selected_by_user() -> None:
    assert of_user([request(), request(user="bench")], "bench") == [request(user="bench")]


def test_creations_are_found_by_name() -> None:
    entries = [request("create", "namespaces", name="n", ended=3.0), request("delete", "namespaces", name="m")]
    assert creations(entries, "namespaces") == {"n": 3.0}


def test_a_log_is_read_as_it_grows_without_incomplete_lines(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(line() + b"\n" + line()[:40])
    log = AuditLog(path)
    mark = log.catch_up()
    with path.open("ab") as file:
        file.write(line()[40:] + b"\n" + line(verb="update") + b"\n")
    assert mark == 1
    assert [entry.verb for entry in log.since(mark)] == ["create", "update"]
    log.close()


def test_missing_namespaces_become_fewer_as_the_log_grows(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(line() + b"\n")
    log = AuditLog(path)
    missing_writes = MissingWrites(log, 0, {"a", "b"}, lambda entries: last_writes(entries, "db"))
    log.catch_up()
    assert not missing_writes.are_done()
    with path.open("ab") as file:
        file.write(line(objectRef={"resource": "secrets", "namespace": "b", "name": "db"}) + b"\n")
    log.catch_up()
    assert missing_writes.are_done()
    log.close()
