"""Row 38 of the fault catalogue: an upgrade and a downgrade, with both versions running for a while."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.cluster.support.audit import OPERATOR, Event, until_recorded
from tests.cluster.support.definitions import DEFINITIONS
from tests.cluster.support.fishy import DEFINITION, SELDOM, Fishy
from tests.cluster.support.fishy_folder import CANARY
from tests.cluster.support.operators import STARTED, Operator
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.stage import SECOND, Stage
from tests.cluster.support.versions import NEXT, Edit, other_version
from tests.cluster.support.waiting import eventually, never

from samara import __version__

Json = dict[str, Any]
NAMES = [f"t{number}" for number in range(10)]
MARK = "samara.dev/made-by"
MARKS = Edit(
    "vocabularies/secret_copy.py",
    "annotations={ORIGIN: secret.ref.path}",
    f'annotations={{ORIGIN: secret.ref.path, "{MARK}": "{NEXT}"}}',
)
"""A mark that the present version does not know."""
SAYS = (
    Edit("vocabularies/fishysecret/status.py", "Secret successfully synced", "in order"),
    Edit(
        "vocabularies/fishysecret/status.py",
        'return {"conditions": conditions, **',
        'return {"conditions": [*conditions, condition("Fresh", True, "Read", "", obj.generation)], "reads": 1, **',
    ),
    Edit("vocabularies/fishysecret/__init__.py", "frozenset({READY})", 'frozenset({READY, "Fresh"})'),
)
"""Other messages, a further condition and a further field."""


@pytest.fixture
def copied(stage: Stage) -> None:
    stage.namespace(*NAMES)
    stage.source("db", ",".join(NAMES))


def now(stage: Stage, *flags: str, user: str | None = None, **more: Any) -> Operator:
    kubeconfig = stage.kubeconfig(user) if user else None
    operator = stage.operator(*flags, kubeconfig=kubeconfig, **more)
    assert f"version={__version__} " in operator.log
    return operator


def later(stage: Stage, env: dict[str, str], *flags: str, **more: Any) -> Operator:
    operator = stage.operator(*flags, env=env, program=STARTED, kubeconfig=stage.kubeconfig(SECOND), **more)
    assert f"version={NEXT} " in operator.log
    return operator


def by(version: str, events: list[Event]) -> list[Event]:
    return [event for event in events if event.agent == f"{OPERATOR}{version}"]


def marked(stage: Stage) -> set[str]:
    return {name for name in NAMES if metadata_of(stage.secret(name, "db") or {"metadata": {}}).get(MARK) == NEXT}


def hand_over(leader: Operator, standby: Operator) -> None:
    leader.stop()
    eventually(lambda: standby.leads)
    standby.synced()


@pytest.mark.usefixtures("copied")
def test_fault_38_with_the_lease_an_upgrade_and_a_downgrade_write_each_change_once(
    stage: Stage,
) -> None:
    env = other_version(stage.folder, MARKS)
    old = now(stage, "--leader-elect")
    stage.until_copied("db", *NAMES)
    mark = stage.audit.mark()
    new = later(stage, env, "--leader-elect", wait="ready")
    stage.bump("db")
    stage.until_copied("db", *NAMES)
    never(lambda: new.leads or by(NEXT, stage.audit.writes(mark)), 2.0)
    mark = stage.audit.mark()
    hand_over(old, new)
    eventually(lambda: marked(stage) == set(NAMES))
    written = until_recorded(lambda: stage.audit.writes(mark), len(NAMES))
    assert Counter(event.address[0] for event in written) == Counter(NAMES), "each copy once"

    mark = stage.audit.mark()
    back = now(stage, "--leader-elect", wait="ready")
    never(lambda: stage.audit.writes(mark), 2.0)
    hand_over(new, back)
    never(lambda: stage.audit.writes(mark), 2.0)
    stage.bump("db")
    stage.until_copied("db", *NAMES)
    written = until_recorded(lambda: stage.audit.writes(mark), len(NAMES))
    assert Counter(event.address[0] for event in written) == Counter(NAMES), "each copy once"
    assert marked(stage) == set(NAMES), "what it does not know it keeps"

    mark = stage.audit.mark()
    again = later(stage, env, "--leader-elect", wait="ready")
    hand_over(back, again)
    never(lambda: stage.audit.writes(mark), 2.0)


@pytest.mark.usefixtures("copied")
def test_fault_38_without_the_lease_two_running_versions_settle_and_do_not_alternate(stage: Stage) -> None:
    now(stage)
    stage.until_copied("db", *NAMES)
    later(stage, other_version(stage.folder, MARKS))
    eventually(lambda: marked(stage) == set(NAMES))
    mark = stage.audit.mark()
    for _ in range(5):
        stage.bump("db")
    stage.until_copied("db", *NAMES)
    done = [event for event in stage.audit.writes(mark) if event.done]  # the loser of a race wrote nothing
    assert len(done) <= 2 * 5 * len(NAMES), "each change once by each"
    mark = stage.audit.mark()
    never(lambda: [str(event) for event in stage.audit.writes(mark) if event.done], 5.0, every=0.2)
    assert marked(stage) == set(NAMES)


@pytest.mark.usefixtures("copied")
def test_fault_38_versions_with_different_desired_states_give_up_soon_and_report_it(stage: Stage) -> None:
    """Without the lease, and with a mark for which the two versions want different values."""
    other = Edit(MARKS.file, MARKS.ours, 'annotations={ORIGIN: secret.ref.path, "team/a": "1"}')
    third = Edit(MARKS.file, MARKS.ours, 'annotations={ORIGIN: secret.ref.path, "team/a": "2"}')
    one, two = (
        other_version(stage.folder, edit, version=version) for edit, version in ((other, "9.1.0"), (third, "9.2.0"))
    )
    mark = stage.audit.mark()
    stage.operator(env=one, program=STARTED, wait="started")
    stage.operator(env=two, program=STARTED, kubeconfig=stage.kubeconfig(SECOND), wait="started")
    stage.until_event("Fought", about="db")
    stage.expect.blocked |= {(name, "db") for name in NAMES}
    # Each version writes once and reverts five times, and one more write of each may be concurrent.
    tries = len(NAMES) * 2 * (1 + 5 + 1)
    never(lambda: len([event for event in stage.audit.writes(mark) if event.done]) > tries, 4.0, every=0.2)
    for operator in stage.operators:
        operator.kill()


def conditions(fishy: Fishy) -> dict[str, str]:
    return {condition["type"]: condition["message"] for condition in fishy.status("db").get("conditions") or ()}


@pytest.fixture
def wider(fishy: Fishy, stage: Stage) -> None:
    """Installs the CRD of the next version, with one more field. It stays until the end of the module."""
    path = f"{DEFINITIONS}/{DEFINITION}"
    live = stage.api.get(path)
    for version in live["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["reads"] = {"type": "integer"}
    stage.api.patch(path, {"spec": {"versions": live["spec"]["versions"]}})


@pytest.mark.usefixtures("wider")
def test_fault_38_versions_with_different_messages_do_not_alternate_and_keep_unknown_fields(
    fishy: Fishy, stage: Stage
) -> None:
    fishy.served({"A": "a"}, refreshInterval=SELDOM)
    mark = stage.audit.mark()
    env = other_version(stage.folder, *SAYS)
    config = {"vocabularies": {"fishysecret": {"refreshInterval": SELDOM, "minRefreshInterval": "1s"}}}
    new = later(stage, env, config=config)
    eventually(lambda: fishy.status("db").get("reads") == 1)
    never(lambda: len(fishy.reports(mark)) > 2 * 5 + 2, 4.0)
    settled = stage.audit.mark()
    never(lambda: fishy.writes(settled), 2.0)
    new.stop()
    fishy.put("a", f"{CANARY}-new")
    fishy.change("db", refreshInterval="1s")
    fishy.until_data("db", {"A": f"{CANARY}-new"})
    eventually(lambda: conditions(fishy).get("Ready") == "Secret successfully synced")
    assert conditions(fishy).keys() == {"Ready", "Fresh"}
    assert fishy.status("db")["reads"] == 1
