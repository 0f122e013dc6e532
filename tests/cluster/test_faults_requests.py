"""Rows 13–18 of the fault catalogue: requests that are refused, lost, slow or unauthenticated."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import ssl
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from aiohttp import web
from tests.cluster.support.api import Api, ApiFault
from tests.cluster.support.audit import Event, until_recorded
from tests.cluster.support.faults import answer_lost, answered, body, delayed, every_nth, stalled, stalled_after
from tests.cluster.support.operators import LEASE as LASTS
from tests.cluster.support.operators import SHORT
from tests.cluster.support.proxy import Exchange, Fault, Proxy, Seen, When, client_context
from tests.cluster.support.stage import OWN, USER, Stage
from tests.cluster.support.waiting import eventually, never

Json = dict[str, Any]
Address = tuple[str, str]
SUBJECT = {"apiGroup": "rbac.authorization.k8s.io"}


def is_write(seen: Seen) -> bool:
    return seen.writes and seen.plural == "secrets"


def is_read(seen: Seen) -> bool:
    return seen.method == "GET" and seen.plural == "secrets" and seen.name != ""


def is_lease(seen: Seen) -> bool:
    return seen.plural == "leases"


def is_renewal(seen: Seen) -> bool:
    return is_lease(seen) and seen.writes


def to(namespace: str) -> When:
    return lambda seen: is_write(seen) and seen.namespace == namespace


def address(seen: Seen) -> Address:
    return seen.namespace, seen.name or str(json.loads(seen.body)["metadata"]["name"])


def by_address(proxy: Proxy) -> dict[Address, list[Seen]]:
    """Every read and write of a single Secret, in order."""
    by_name: defaultdict[Address, list[Seen]] = defaultdict(list)
    for seen in proxy.requests(lambda seen: is_write(seen) or is_read(seen)):
        by_name[address(seen)].append(seen)
    return by_name


def done(stage: Stage, mark: int = 0) -> Counter[tuple[str, str, str]]:
    return Counter((event.verb, *event.address) for event in stage.audit.writes(mark) if event.done)


# 13


def test_fault_13_after_a_conflict_the_copy_is_read_again_planned_again_and_written_once(stage: Stage) -> None:
    names = [f"n{number}" for number in range(12)]
    stage.namespace(*names)
    proxy = stage.proxy()
    rule = proxy.on_request(every_nth(3, is_write), answered(409, "Conflict"))
    stage.operator(through=proxy)
    stage.source("db", ",".join(names))
    stage.until_copied("db", *names)
    stage.bump("db")
    stage.until_copied("db", *names)
    stage.retarget("db", ",".join(names[2:]))
    for name in names[:2]:
        stage.until_gone(name, "db")
    assert rule.hits >= 10
    written = until_recorded(stage.audit.writes, len(proxy.requests(is_write)) - rule.hits)
    assert len(proxy.requests(is_write)) == len(written) + rule.hits, "a conflict costs one more write"
    assert max(done(stage).values()) == 1
    for requests in by_address(proxy).values():
        for before, after in itertools.pairwise(requests):
            same = (before.method, before.body) == (after.method, after.body)
            assert not (before.writes and same), "written again without a look"


def test_fault_13_a_permanent_conflict_is_retried_with_backoff_and_delays_no_other_copy(stage: Stage) -> None:
    stage.namespace("a", "b")
    proxy = stage.proxy()
    rule = proxy.on_request(to("a"), answered(409, "Conflict"))
    stage.operator(through=proxy)
    stage.source("db", "a,b")
    stage.until_copied("db", "b")
    eventually(lambda: rule.hits >= 6)
    times = [seen.at for seen in proxy.requests(to("a"))]
    assert times[5] - times[0] > 1.0
    assert times[5] - times[4] > times[3] - times[2]
    stage.bump("db")
    stage.until_copied("db", "b")
    proxy.clear()
    stage.until_copied("db", "a")


# 14


def test_fault_14_a_429_stops_all_writes_for_retry_after_while_the_lease_is_renewed(
    stage: Stage,
) -> None:
    names = [f"n{number}" for number in range(10)]
    stage.namespace(*names)
    proxy = stage.proxy()
    operator = stage.operator("--leader-elect", config={"writes": {"inFlight": 4}}, through=proxy)
    rule = proxy.on_request(is_write, answered(429, "TooManyRequests", retry_after=1))
    stage.source("db", ",".join(names))
    first = eventually(lambda: proxy.requests(is_write))[0].at
    eventually(lambda: proxy.requests(is_write)[-1].at - first > 3.0 and rule.hits >= len(names))
    rained = proxy.requests(is_write)
    for name in names:
        tries = [seen.at for seen in rained if seen.namespace == name]
        assert all(after - before >= 1.0 for before, after in itertools.pairwise(tries)), (
            "sent before its second was over"
        )
    early = [seen for seen in rained if seen.at - first < 1.0]
    assert len(early) <= 4 + 1, (
        "what two answers say holds for all: four were on their way, and one came after the first"
    )
    renewed = len(proxy.requests(is_renewal))
    eventually(lambda: len(proxy.requests(is_renewal)) >= renewed + 2)  # during the burst of errors
    assert operator.leads
    proxy.clear()
    stage.until_copied("db", *names)
    assert operator.leads


def test_fault_14_a_write_that_priority_and_fairness_rejects_is_made_later(stage: Stage) -> None:
    stage.namespace("a", "b")
    operator = stage.operator("--leader-elect")
    _give_one_seat(stage)
    with _seat_taken(stage):
        mark = stage.audit.mark()
        stage.source("db", "a,b")
        eventually(lambda: _seconds(stage.audit.writes(mark)) > 2.0)
        refused = stage.audit.writes(mark)
        assert {event.code for event in refused} == {429}
        for namespace in "ab":
            tries = [event for event in refused if event.namespace == namespace]
            assert all(after.received - before.answered >= 1.0 for before, after in itertools.pairwise(tries))
        assert operator.leads
    stage.until_copied("db", "a", "b")


FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"


def _seconds(events: list[Event]) -> float:
    return events[-1].received - events[0].received if events else 0.0


def _give_one_seat(stage: Stage) -> None:
    """Puts only the operator's writes to Secrets into a priority level in which one request runs at a time."""
    seats = {"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}
    rule = {
        "subjects": [{"kind": "User", "user": {"name": USER}}],
        "resourceRules": [
            {"verbs": ["create", "update"], "apiGroups": [""], "resources": ["secrets"], "namespaces": ["*"]}
        ],
    }
    schema = {
        "priorityLevelConfiguration": {"name": "one-seat"},
        "matchingPrecedence": 2,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [rule],
    }
    for plural, spec in (
        ("prioritylevelconfigurations", {"type": "Limited", "limited": seats}),
        ("flowschemas", schema),
    ):
        stage.api.create(f"{FLOW}/{plural}", {"metadata": {"name": "one-seat"}, "spec": spec})
        stage.also_remove(f"{FLOW}/{plural}/one-seat")


@contextmanager
def _seat_taken(stage: Stage) -> Iterator[None]:
    """Occupies the only seat with a request whose body never ends. Retries until the priority level is in force."""
    path = "/api/v1/namespaces/default/secrets?dryRun=All"
    context = client_context(stage.kubeconfig(), stage.folder)
    probe = Api(stage.cluster.url, context)

    def sit() -> http.client.HTTPSConnection | None:
        connection = http.client.HTTPSConnection(urlsplit(stage.cluster.url).netloc, context=context)
        connection.putrequest("POST", path)
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "1000")
        connection.endheaders(b"{")
        with suppress(AssertionError):
            eventually(lambda: _is_rejected(probe, path), 1.0)
            return connection
        connection.close()
        return None

    sitting = eventually(sit)
    try:
        yield
    finally:
        assert sitting is not None
        sitting.close()
        probe.close()


def _is_rejected(probe: Api, path: str) -> bool:
    try:
        probe.create(path, {"metadata": {"name": "probe"}})
    except ApiFault as fault:
        return fault.status == 429
    return False


# 15

PAGE = b"<html><body><h1>Bad gateway</h1></body></html>"
BURST: tuple[Fault, ...] = (
    answered(500, "InternalError"),
    body(PAGE, 502, "text/html"),
    answered(503, "ServiceUnavailable"),
    body(PAGE, 504, "text/html"),
    answered(500, "InternalError", "etcdserver: request timed out"),
    answered(500, "InternalError", "etcdserver: leader changed"),
)


def in_turn(faults: tuple[Fault, ...]) -> Fault:
    turn = itertools.cycle(faults)

    async def fault(exchange: Exchange) -> web.StreamResponse:
        return await next(turn)(exchange)

    return fault


def test_fault_15_writes_during_a_burst_of_5xx_are_retried_without_a_hot_loop(stage: Stage) -> None:
    names = ["a", "b", "c", "d"]
    stage.namespace(*names)
    proxy = stage.proxy()
    operator = stage.operator("--leader-elect", config={"timers": {"backoffMost": "1s"}}, through=proxy)
    rule = proxy.on_request(is_write, in_turn(BURST))
    stage.source("db", ",".join(names))
    first = eventually(lambda: proxy.requests(is_write))[0].at
    eventually(lambda: proxy.requests(is_write)[-1].at - first > 3.0)
    seconds = proxy.requests(is_write)[-1].at - first
    tries = Counter(seen.namespace for seen in proxy.requests(is_write))
    # 0.2 s, doubling up to `backoffMost` of one second, with 20 % jitter
    assert max(tries.values()) <= 4 + seconds / 0.8
    proxy.clear()
    stage.until_copied("db", *names)
    assert rule.hits >= 6
    assert max(done(stage).values()) == 1
    assert operator.leads


def test_fault_15_after_a_time_of_5xx_for_every_request_everything_is_reconciled(stage: Stage) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    proxy = stage.proxy()
    operator = stage.operator(through=proxy)
    stage.until_copied("db", "a", "b")
    proxy.on_request(lambda seen: True, in_turn(BURST))
    for plural in ("secrets", "namespaces", "resourcequotas"):
        proxy.cut(plural)
    mark = len(proxy.seen)
    stage.bump("db")
    stage.namespace("c")
    stage.retarget("db", "b,c")
    eventually(lambda: len(proxy.seen) - mark > 9)
    times = [seen.at for seen in proxy.requests()[mark:]]
    assert len(times) / (times[-1] - times[0]) < 20, "requests in a hot loop"
    proxy.clear()
    stage.until_copied("db", "b", "c")
    stage.until_gone("a", "db")
    assert operator.running


def test_fault_15_an_operator_that_starts_during_a_burst_of_5xx_waits_until_it_ends(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    proxy = stage.proxy()
    rule = proxy.on_request(lambda seen: True, in_turn(BURST), times=12)
    holds = proxy.on_request(lambda seen: seen.plural == "configmaps", answered(503, "ServiceUnavailable"), times=1)
    operator = stage.operator("--leader-elect", through=proxy)
    stage.until_copied("db", "a")
    assert (rule.hits, holds.hits) == (12, 1)
    assert operator.running


# 16


def test_fault_16_a_write_whose_response_was_lost_is_not_repeated(stage: Stage) -> None:
    stage.namespace("a", "b")
    proxy = stage.proxy()
    rule = proxy.on_request(is_write, answer_lost, times=2)
    stage.operator(through=proxy)
    stage.source("db", "a,b")
    stage.until_copied("db", "a", "b")
    eventually(lambda: rule.hits == 2)
    rule.times = 4
    stage.bump("db")
    stage.until_copied("db", "a", "b")
    eventually(lambda: rule.hits == 4)
    rule.times = 5
    stage.retarget("db", "a")
    stage.until_gone("b", "db")
    eventually(lambda: rule.hits == 5 and len(stage.audit.writes()) == 5)
    wrote = Counter((event.verb, *event.address) for event in stage.audit.writes())
    once = [("create", "a"), ("create", "b"), ("update", "a"), ("update", "b"), ("delete", "b")]
    assert wrote == {(verb, namespace, "db"): 1 for verb, namespace in once}


def test_fault_16_a_write_without_a_response_is_not_repeated(stage: Stage) -> None:
    stage.namespace("a")
    proxy = stage.proxy()
    rule = proxy.on_request(is_write, stalled_after, times=1)
    stage.operator("--request-timeout=1s", through=proxy)
    stage.source("db", "a")
    stage.until_copied("db", "a")
    eventually(lambda: proxy.requests(is_read))
    assert rule.hits == 1
    assert len(stage.audit.writes()) == 1


def test_fault_16_already_exists_for_our_own_create_is_success(stage: Stage) -> None:
    stage.source("db", "a")
    proxy = stage.proxy()
    operator = stage.operator(through=proxy)
    proxy.freeze("secrets")  # otherwise the watch would deliver the copy before the retry
    proxy.on_request(to("a"), answer_lost, times=1)
    unread = proxy.on_request(is_read, answered(503, "ServiceUnavailable"), times=1)
    stage.namespace("a")
    eventually(lambda: operator.copies("right") == 1)
    assert unread.hits == 1
    assert [(event.verb, event.code) for event in stage.audit.writes()] == [("create", 201), ("create", 409)]
    proxy.clear()
    assert stage.events(reason="Conflict") == []


def test_fault_16_already_exists_for_a_foreign_object_is_a_conflict(stage: Stage) -> None:
    stage.source("db", "a")
    proxy = stage.proxy()
    operator = stage.operator(through=proxy)
    proxy.freeze("secrets")
    proxy.freeze("namespaces")
    stage.namespace("a")
    theirs = stage.foreign("a", "db", {"theirs": "1"})
    proxy.thaw("namespaces")
    stage.until_event("Conflict", about="db")
    assert [(event.verb, event.code) for event in stage.audit.writes()] == [("create", 409)]
    proxy.clear()
    assert stage.secret("a", "db") == theirs
    assert operator.copies("blocked") == 1


# 17


class Flights:
    """Delays every write, and records concurrent writes to one address."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._flying: set[Address] = set()
        self.overlaps: list[Address] = []
        self.most = 0

    async def __call__(self, exchange: Exchange) -> web.StreamResponse:
        where = address(exchange.seen)
        if where in self._flying:
            self.overlaps.append(where)
        self._flying.add(where)
        self.most = max(self.most, len(self._flying))
        try:
            await asyncio.sleep(self._seconds)
            return await exchange.forward()
        finally:
            self._flying.discard(where)


def test_fault_17_on_a_slow_server_no_two_requests_are_in_flight_for_one_address(stage: Stage) -> None:
    stage.namespace("a", "b", "c")
    proxy = stage.proxy()
    flights = Flights(1.5)
    rule = proxy.on_request(is_write, flights)
    operator = stage.operator("--leader-elect", through=proxy)
    stage.source("db", "a,b,c")
    eventually(lambda: rule.hits >= 3)
    for _ in range(5):
        stage.bump("db")
        stage.annotate("/api/v1/namespaces/a", {"touched": stage.rising()})
    stage.until_copied("db", "a", "b", "c", deadline=30)
    assert flights.overlaps == []
    assert flights.most > 1
    assert max(done(stage).values()) == 1, "changes during a flight are written once"
    assert operator.leads


def test_fault_17_retries_do_not_overtake_requests_that_timed_out(stage: Stage) -> None:
    stage.namespace("a")
    proxy = stage.proxy()
    flights = Flights(5.0)
    rule = proxy.on_request(is_write, flights, times=2)
    stage.operator("--request-timeout=1s", through=proxy)
    stage.source("db", "a")
    stage.until_copied("db", "a")
    assert rule.hits == 2
    assert flights.overlaps == []


def test_fault_17_a_lease_that_cannot_be_renewed_in_time_is_given_up_before_another_takes_it(stage: Stage) -> None:
    names = [f"n{number}" for number in range(10)]
    stage.namespace(*names)
    proxy = stage.proxy()
    slow = stage.operator("--leader-elect", config={**SHORT, "writes": {"perSecond": 5}}, through=proxy)
    standby = stage.operator("--leader-elect", config=SHORT, wait="ready")
    assert slow.leads
    stage.source("db", ",".join(names))
    eventually(lambda: stage.audit.writes())
    proxy.on_request(lambda seen: not seen.watch, delayed(5.0))
    assert slow.wait() == 1
    assert "the lease could not be kept" in slow.log
    eventually(lambda: standby.leads)
    stage.until_copied("db", *names)
    assert set(done(stage).values()) == {1}


def test_fault_17_a_lease_is_kept_while_only_writes_to_copies_are_slow(stage: Stage) -> None:
    stage.namespace("a")
    proxy = stage.proxy()
    operator = stage.operator("--leader-elect", f"--request-timeout={LASTS + 1:g}s", config=SHORT, through=proxy)
    rule = proxy.on_request(is_write, stalled, times=1)
    stage.source("db", "a")
    eventually(lambda: rule.hits)
    never(lambda: not operator.leads, LASTS + 0.5, every=0.2)
    stage.until_copied("db", "a")


# 18


def test_fault_18_a_rotated_token_is_read_again_after_a_401_without_a_restart(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    token = _service_account(stage)
    file = stage.folder / "token"
    file.write_text(token)
    operator = stage.operator(kubeconfig=_kubeconfig(stage, file))
    stage.until_copied("db", "a")
    stage.api.delete(_ACCOUNT)  # the token was bound to this account, so the server refuses it now
    new = _service_account(stage)
    eventually(lambda: _is_refused(stage, token))
    stage.bump("db")
    eventually(lambda: [event for event in stage.audit.ours() if event.code == 401])
    never(lambda: not operator.running, 1.0)
    file.write_text(new)
    stage.until_copied("db", "a")
    assert operator.running


def test_fault_18_a_token_file_that_is_missing_for_a_short_time_does_no_harm(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    proxy = stage.proxy()
    file = stage.folder / "token"
    file.write_text("one")
    operator = stage.operator(kubeconfig=_kubeconfig(stage, file, proxy))
    stage.until_copied("db", "a")
    rule = proxy.on_request(lambda seen: seen.token != "two", answered(401, "Unauthorized"))
    file.unlink()
    proxy.cut("secrets")
    stage.bump("db")
    eventually(lambda: "expected a file with a token" in operator.log)
    assert rule.hits
    file.write_text("two")
    stage.until_copied("db", "a")
    assert operator.running


def test_fault_18_a_new_certificate_authority_is_trusted_once_it_is_in_the_file(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    proxy = stage.proxy()
    token, ca = stage.folder / "token", stage.folder / "ca.crt"
    token.write_text("one")
    ca.write_bytes(proxy.authority)
    operator = stage.operator(kubeconfig=_kubeconfig(stage, token, proxy, ca))
    stage.until_copied("db", "a")
    proxy.rotate()
    stage.bump("db")
    ca.write_bytes(b"")  # as during a replacement that is not atomic
    refused = operator.log.count("CERTIFICATE_VERIFY_FAILED")
    eventually(lambda: operator.log.count("CERTIFICATE_VERIFY_FAILED") > refused + 1)
    ca.write_bytes(proxy.authority)
    stage.until_copied("db", "a")
    assert operator.running


_ACCOUNT = f"/api/v1/namespaces/{OWN}/serviceaccounts/samara"


def _service_account(stage: Stage) -> str:
    """Creates an account with the operator's rights, and returns a token bound to it."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    stage.api.create(f"/api/v1/namespaces/{OWN}/serviceaccounts", {"metadata": {"name": "samara"}})
    stage.also_remove(_ACCOUNT)
    subjects = [{"kind": "ServiceAccount", "name": "samara", "namespace": OWN}]
    for path, kind in (("clusterrolebindings", "ClusterRole"), (f"namespaces/{OWN}/rolebindings", "Role")):
        binding = {"kind": kind, "name": "samara", **SUBJECT}
        if stage.api.find(f"{rbac}/{path}/account") is None:
            meta = {"metadata": {"name": "account"}}
            stage.api.create(f"{rbac}/{path}", {**meta, "roleRef": binding, "subjects": subjects})
            stage.also_remove(f"{rbac}/{path}/account")
    token_request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600},
    }
    return str(stage.api.create(f"{_ACCOUNT}/token", token_request)["status"]["token"])


def _kubeconfig(stage: Stage, token: Path, through: Proxy | None = None, ca: Path | None = None) -> Path:
    """A kubeconfig with the token, and possibly the authority, in files that the test rewrites."""
    cluster: Json = {"server": through.url if through is not None else stage.cluster.url}
    cluster["certificate-authority"] = str(ca or stage.cluster.ca_file)
    if through is not None and ca is None:
        cluster = yaml.safe_load(through.kubeconfig().read_text())["clusters"][0]["cluster"]
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "x", "cluster": cluster}],
        "users": [{"name": "x", "user": {"tokenFile": str(token)}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "current-context": "x",
    }
    file = stage.folder / "kubeconfig-with-files"
    file.write_text(yaml.safe_dump(document))
    return file


def _is_refused(stage: Stage, token: str) -> bool:
    """The server caches the authentication of a token for some seconds."""
    connection = http.client.HTTPSConnection(
        urlsplit(stage.cluster.url).netloc, context=ssl.create_default_context(cafile=str(stage.cluster.ca_file))
    )
    try:
        connection.request("GET", "/api/v1/namespaces", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status == 401
    finally:
        connection.close()
