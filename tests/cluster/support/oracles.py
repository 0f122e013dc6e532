"""The oracles O1, O2, O4 and O5 check every cluster test by the state of the server and its audit log.

O3, that a crash leaves no other state, is in `test_faults_process.py`.

This module imports no decisions of the operator: it computes the expected state from the specification alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.support.audit import Event
from tests.cluster.support.operators import Operator
from tests.cluster.support.stage import FROM, ORIGIN, TARGETS, Stage, decoded
from tests.cluster.support.waiting import never, no_faults

Json = dict[str, Any]
Address = tuple[str, str]
DENIED = {"kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "helm.sh/release.v1"}
FILLED = frozenset({"reflector.v1.k8s.emberstack.com/reflects"})
"""The annotations by which people ask to fill an object."""
OTHERS = {
    "events",
    "leases",
    "configmaps",
    "selfsubjectaccessreviews",
    "subjectaccessreviews",
    "resourcedistributions",
} | {
    "fishysecrets",
    "validatingwebhookconfigurations",
    "customresourcedefinitions",
}
"""Resources that the operator may write besides copies; counted separately."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_GITOPS = ("app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/", "meta.helm.sh/", "argocd.argoproj")


def listed(text: str) -> list[str] | None:
    """The names in an annotation; None means every namespace. An implementation of rule 2 apart from the product."""
    if not text.strip():
        return None
    matches = re.finditer(r'\s*(?:"((?:[^"]|"")*)"[^,]*|([^,]*))(?:,|$)', text)
    items = [(match[1] if match[1] is not None else match[2]).strip() for match in matches]
    return list(dict.fromkeys(item for item in items if _NAME.fullmatch(item)))


def metadata_of(obj: Json, where: str = "annotations") -> dict[str, str]:
    return obj["metadata"].get(where) or {}


@dataclass(slots=True)
class History:
    """The history of every Secret in the audit log."""

    made_by_us: set[str] = field(default_factory=set)
    made_by_others: set[str] = field(default_factory=set)
    perhaps: set[Address] = field(default_factory=set)
    """Addresses of our creates whose result is unknown."""
    states: dict[tuple[str, str], Json] = field(default_factory=dict)
    """By uid and resourceVersion."""

    def take(self, event: Event) -> None:
        if event.resource != "secrets" or event.dry_run:
            return
        if event.ours and event.verb == "create" and event.uncertain:
            self.perhaps.add(event.address)
        response = event.response
        if not event.done or response.get("kind") != "Secret":
            return
        meta = response["metadata"]
        if event.verb == "create":
            (self.made_by_us if event.ours else self.made_by_others).add(meta["uid"])
        self.states[meta["uid"], meta["resourceVersion"]] = response

    def is_ours(self, uid: str, address: Address) -> bool:
        """True if we created it, or if a create of ours with an unknown result may have and no other client did."""
        return uid in self.made_by_us or (uid not in self.made_by_others and address in self.perhaps)


@dataclass(slots=True)
class Picture:
    """The state of the cluster compared with the specification, with counts."""

    faults: list[str] = field(default_factory=list)
    sources: int = 0
    right: int = 0
    blocked: int = 0
    orphans: int = 0


class Judge:
    """Checks one stage. `off` names the oracles that the test has switched off."""

    def __init__(self, stage: Stage, off: frozenset[str] = frozenset()) -> None:
        self.stage = stage
        self.off = off

    def judge(self) -> None:
        """Runs all oracles at the end of a test."""
        # O2 expects silence, so it runs after O5, which waits until the operator has nothing pending.
        for name, oracle in (("O1", self.o1), ("O5", self.o5), ("O2", self.o2), ("O4", self.o4)):
            if name not in self.off:
                oracle()

    # O1

    def o1(self, deadline: float = 30.0) -> None:
        """Every desired copy exists and is exact, and no other address has a copy of ours."""
        no_faults(lambda: self.picture().faults, deadline)

    def history(self) -> History:
        history = History()
        for event in self.stage.audit.events():
            history.take(event)
        return history

    def picture(self) -> Picture:
        stage, picture = self.stage, Picture()
        namespaces = {namespace["metadata"]["name"]: namespace for namespace in stage.api.items("/api/v1/namespaces")}
        secrets = {_address(secret): secret for secret in stage.api.items("/api/v1/secrets")}
        history = self.history()
        wanted: set[Address] = set()
        for source in secrets.values():
            if source["metadata"]["namespace"] == stage.expect.home and TARGETS in metadata_of(source):
                picture.sources += 1
                for address in self._places(source, namespaces):
                    wanted.add(address)
                    self._place(picture, source, address, namespaces, secrets, history)
        for address in secrets:
            if address not in wanted and address[0] != stage.expect.home:
                self._unwanted(picture, address, namespaces, secrets, history)
        return picture

    def _places(self, source: Json, namespaces: dict[str, Json]) -> Iterator[Address]:
        names = listed(metadata_of(source)[TARGETS])
        for name in namespaces if names is None else names:
            ignored = name in namespaces and metadata_of(namespaces[name]).get("samara.dev/ignore") == "true"
            if name != self.stage.expect.home and not (names is None and ignored):
                yield name, source["metadata"]["name"]

    def _place(
        self,
        picture: Picture,
        source: Json,
        address: Address,
        namespaces: dict[str, Json],
        secrets: dict[Address, Json],
        history: History,
    ) -> None:
        live, namespace = secrets.get(address), namespaces.get(address[0])
        if self._is_blocked(source, address, namespace, live, history):
            picture.blocked += 1
            return
        fault = self._wrong(source, live)
        if fault:
            picture.faults.append(f"{'/'.join(address)}: {fault}")
        else:
            picture.right += 1

    def _is_blocked(
        self, source: Json, address: Address, namespace: Json | None, live: Json | None, history: History
    ) -> bool:
        if namespace is None or namespace["metadata"].get("deletionTimestamp") or address in self.stage.expect.blocked:
            return True
        if source["type"] in DENIED or any(
            metadata_of(obj).get("samara.dev/paused") == "true" for obj in (source, namespace)
        ):
            return True
        if live is None:
            return False
        if live["metadata"].get("deletionTimestamp"):
            return True
        marked = metadata_of(live).get(ORIGIN) == f"{self.stage.expect.home}/{address[1]}"
        if history.is_ours(live["metadata"]["uid"], address) or marked or self.stage.expect.overwrite:
            return metadata_of(live).get("samara.dev/released") == "true" and not marked
        return not (_content(live) == _content(source) and _is_free(live))

    def _wrong(self, source: Json, live: Json | None) -> str:
        if live is None:
            return "no copy is there"
        if _content(live) != _content(source):
            return f"differs from its source: {decoded(live).get('n')} instead of {decoded(source).get('n')}"
        origin = f"{self.stage.expect.home}/{source['metadata']['name']}"
        if metadata_of(live).get(ORIGIN) != origin:
            return f"the origin mark is {metadata_of(live).get(ORIGIN)!r}"
        token = metadata_of(live, "labels").get(FROM, "")
        plain = origin.replace("/", "-", 1)
        if token != plain if _LABEL.fullmatch(plain) else not _LABEL.fullmatch(token):
            return f"the label token is {token!r}"
        return ""

    def _unwanted(
        self,
        picture: Picture,
        address: Address,
        namespaces: dict[str, Json],
        secrets: dict[Address, Json],
        history: History,
    ) -> None:
        expect, secret = self.stage.expect, secrets[address]
        source = secrets.get((expect.home, address[1]))
        gone = source is None or TARGETS not in metadata_of(source)
        orphan = gone and metadata_of(secret).get(ORIGIN) == f"{expect.home}/{address[1]}"
        picture.orphans += orphan
        if not _is_ours(secret, history):
            return
        if address in expect.kept or (gone and expect.on_source_gone == "keep"):
            return
        if metadata_of(secret).get("samara.dev/released") == "true" or secret["metadata"].get("deletionTimestamp"):
            return
        namespace = namespaces.get(address[0])
        holders = [obj for obj in (namespace, source) if obj is not None]
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return
        if any(
            metadata_of(obj).get(f"samara.dev/{word}") == "true" for obj in holders for word in ("paused", "ignore")
        ):
            return
        picture.faults.append(f"{'/'.join(address)}: a copy of ours is there that nothing wants")

    # O2

    def o2(self, seconds: float | None = None, mark: int | None = None) -> None:
        """The operator writes no source, copy or Namespace from now on, or since a mark."""
        if not any(operator.running for operator in self.stage.operators):
            return
        start = self.stage.audit.mark() if mark is None else mark
        window = self.stage.expect.quiet if seconds is None else seconds
        never(lambda: [str(event) for event in self.stage.audit.writes(start)], window, every=0.2)

    # O4

    def o4(self) -> None:
        """Every write of ours is conditional and changes only copies of ours, never a source or to an older value."""
        history = History()
        faults: list[str] = []
        # Complete the history first: the checks look objects up by the version that a write was planned on.
        for event in self.stage.audit.events():
            history.take(event)
        for event in self.stage.audit.ours():
            if event.mutating and not event.dry_run and (event.done or event.uncertain):
                fault = self._unsafe(event, history)
                faults += [f"{event}: {fault}"] if fault else []
        faults += self._back_in_time()
        assert not faults, "unsafe writes:\n" + "\n".join(faults[:20])

    def _unsafe(self, event: Event, history: History) -> str:
        if event.resource != "secrets":
            return "" if event.resource in OTHERS else "the operator has no business there"
        if event.namespace == self.stage.expect.home:
            return "a write to the home namespace: sources are never modified"
        judges: dict[str, Callable[[Event, History], str]] = {
            "delete": self._delete,
            "update": self._update,
            "patch": self._patch,
        }
        if event.verb == "create":
            return ""
        return judges[event.verb](event, history) if event.verb in judges else "not a verb we use on copies"

    def _delete(self, event: Event, history: History) -> str:
        condition = event.request.get("preconditions") or {}
        if not condition.get("uid") or not condition.get("resourceVersion"):
            return "a delete without uid and version"
        if history.is_ours(condition["uid"], event.address):
            return ""
        before = history.states.get((condition["uid"], condition["resourceVersion"]))
        if self.stage.expect.overwrite and before is not None:
            return ""
        return "deletes an object that we did not make"

    def _update(self, event: Event, history: History) -> str:
        meta = event.request.get("metadata") or {}
        if not meta.get("uid") or not meta.get("resourceVersion"):
            return "an update that does not name the version it was planned on"
        if history.is_ours(meta["uid"], event.address) or self.stage.expect.overwrite:
            return ""
        before = history.states.get((meta["uid"], meta["resourceVersion"]))
        if before is None:
            return "updates an object that we did not make, from a version that no client wrote"
        if metadata_of(before).get(ORIGIN) == f"{self.stage.expect.home}/{event.name}":
            return ""
        if FILLED.intersection(metadata_of(before)):
            return _unlawful_fill(before, event.request)
        if _content(before) != _content(event.request):
            return "overwrites an object that we did not make"
        return (
            "" if "samara.dev/adopted" in metadata_of(event.request) else "takes an object without saying it is adopted"
        )

    def _patch(self, event: Event, history: History) -> str:
        """A patch may only release an object: it removes our marks or sets `released`, and leaves the content alone."""
        meta = event.request.get("metadata") or {}
        if not meta.get("uid") or not meta.get("resourceVersion"):
            return "a patch that does not name the version it was planned on"
        if set(event.request) - {"metadata", "apiVersion", "kind"}:
            return "a patch of more than metadata"
        if set(meta) - {"uid", "resourceVersion", "labels", "annotations"}:
            return "a patch of more than labels and annotations"
        before = history.states.get((meta["uid"], meta["resourceVersion"]))
        marked = before is not None and metadata_of(before).get(ORIGIN) == f"{self.stage.expect.home}/{event.name}"
        return "" if marked or history.is_ours(meta["uid"], event.address) else "patches an object that is not ours"

    def _back_in_time(self) -> list[str]:
        written: defaultdict[Address, list[tuple[int, int]]] = defaultdict(list)
        for event in self.stage.audit.writes():
            if event.verb not in ("create", "update") or not event.done or event.response.get("kind") != "Secret":
                continue
            number = decoded(event.response).get("n", "")
            if number.isdecimal():
                written[event.address].append((int(event.response["metadata"]["resourceVersion"]), int(number)))
        faults = []
        for address, values in written.items():
            numbers = [number for _, number in sorted(values)]
            if numbers != sorted(numbers):
                faults.append(f"{'/'.join(address)}: an older value was written over a newer one: {numbers}")
        return faults

    # O5

    def o5(self) -> None:
        """The metrics of every leader equal the state that O1 computes."""
        for operator in self.stage.operators:
            if operator.leads:
                no_faults(lambda leader=operator: self._untrue(leader), 10.0, every=0.2)  # type: ignore[misc]

    def _untrue(self, operator: Operator) -> list[str]:
        picture, metrics = self.picture(), operator.metrics()
        expected = {
            'samara_copies{state="right",vocabulary="secret-copy"}': picture.right,
            'samara_copies{state="pending",vocabulary="secret-copy"}': 0,
            'samara_copies{state="blocked",vocabulary="secret-copy"}': picture.blocked,
            'samara_sources{vocabulary="secret-copy"}': picture.sources,
            'samara_orphans{vocabulary="secret-copy"}': picture.orphans,
            "samara_synced": 1,
            "samara_queue_depth": 0,
            "samara_oldest_pending_seconds": 0,
        }
        return [
            f"{name} is {metrics.get(name)}, not {value}"
            for name, value in expected.items()
            if metrics.get(name) != value
        ]


def _unlawful_fill(before: Json, after: Json) -> str:
    """What a fill changed besides the data and the marks that are beside the one by which the object asks."""
    marks = {mark.rpartition("/")[0] for mark in FILLED}

    def kept(secret: Json) -> tuple[object, ...]:
        others = {key: value for key, value in metadata_of(secret).items() if key.rpartition("/")[0] not in marks}
        asked = {key: value for key, value in metadata_of(secret).items() if key in FILLED}
        labels, owners = secret["metadata"].get("labels"), secret["metadata"].get("ownerReferences")
        return secret.get("type"), secret.get("immutable"), others, asked, labels or {}, owners

    return "" if kept(before) == kept(after) else "fills an object and changes more than its data and our marks"


def _address(secret: Json) -> Address:
    return secret["metadata"]["namespace"], secret["metadata"]["name"]


def _content(secret: Json) -> tuple[str, dict[str, str]]:
    return secret["type"], secret.get("data") or {}


def _is_ours(secret: Json, history: History) -> bool:
    """True if we created or adopted it; a mark alone proves nothing."""
    return history.is_ours(secret["metadata"]["uid"], _address(secret)) or (
        ORIGIN in metadata_of(secret) and "samara.dev/adopted" in metadata_of(secret)
    )


def _is_free(live: Json) -> bool:
    keys = (*metadata_of(live), *metadata_of(live, "labels"))
    return not live["metadata"].get("ownerReferences") and not any(key.startswith(_GITOPS) for key in keys)
