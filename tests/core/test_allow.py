"""May this source have a copy there?"""

import pytest
from tests.support.world import Words, at, secret

from samara.core.allow import Rules, accepts, allow
from samara.core.model import CONFIG_MAP, SECRET, Kind, Object, namespace_ref
from samara.core.travel import ACCEPT, IGNORE, PAUSED
from samara.core.want import KEEP, Copy, Dialect, Places, Reach, Want

SOURCE = at("admin", "x")
PROTECTED = Rules(protected=("kube-*",), own=frozenset({at("ours", "x")}))


def dialect(reach: Reach = Reach.NEVER, consent: bool = False, any_kind: bool = False) -> Dialect:
    return Dialect(
        "toy",
        (SECRET,),
        lambda obj, view: False,
        lambda obj, view: None,
        lambda source, view: Places(SECRET, source.name),
        lambda source, view: Want(),
        frozenset(),
        frozenset(),
        reach=reach,
        consent=consent,
        any_kind=any_kind,
    )


def reason(copy: Copy, annotations: Words | None = None, of: Dialect | None = None, labels: Words | None = None) -> str:
    namespace = Object(namespace_ref(copy.ref.namespace), "u", 1, labels=labels or {}, annotations=annotations or {})
    refusal = allow(copy, SOURCE, namespace, of or dialect(), PROTECTED)
    if refusal is None:
        return "allowed"
    return "spared" if refusal.spared else refusal.reason + ("+withdraw" if refusal.withdraw else "")


def wanted(namespace: str = "a", named: bool = False, kind: Kind = SECRET) -> Copy:
    return Copy(at(namespace, "x", kind), secret(), named=named)


REACHES = [
    (Reach.ANYWHERE, False, "allowed"),
    (Reach.ANYWHERE, True, "allowed"),
    (Reach.NAMED, False, "spared"),
    (Reach.NAMED, True, "allowed"),
    (Reach.NEVER, False, "spared"),
    (Reach.NEVER, True, "refused"),
]


@pytest.mark.parametrize(("reach", "named", "answer"), REACHES)
def test_a_protected_namespace_is_reached_as_the_dialect_may(reach: Reach, named: bool, answer: str) -> None:
    assert reason(wanted("kube-system", named), of=dialect(reach)) == answer


OWN = [
    (Reach.ANYWHERE, False, "allowed"),
    (Reach.NAMED, False, "allowed"),
    (Reach.NAMED, True, "allowed"),
    (Reach.NEVER, False, "spared"),
    (Reach.NEVER, True, "refused"),
]


@pytest.mark.parametrize(("reach", "named", "answer"), OWN)
def test_what_is_the_operators_own_is_no_target_of_what_tenants_write(reach: Reach, named: bool, answer: str) -> None:
    assert reason(wanted("ours", named), of=dialect(reach)) == answer


def test_only_that_very_object_is_the_operators_own() -> None:
    assert reason(Copy(at("ours", "y"), secret(), named=True)) == "allowed"
    assert reason(wanted("a", named=True)) == "allowed"
    assert reason(wanted("ours", named=True, kind=CONFIG_MAP)) == "allowed"


@pytest.mark.parametrize("reach", list(Reach))
def test_any_other_namespace_is_open_to_all(reach: Reach) -> None:
    assert reason(wanted("a"), of=dialect(reach)) == "allowed"


def test_a_denied_kind_is_refused_unless_the_administrator_lists_kinds() -> None:
    role = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
    assert reason(wanted(kind=role)) == "refused"
    assert reason(wanted(kind=role), of=dialect(any_kind=True)) == "allowed"


def test_a_denied_type_is_refused_even_where_kinds_are_not() -> None:
    token = Copy(at("a", "x"), secret("one", "kubernetes.io/service-account-token"))
    assert reason(token, of=dialect(any_kind=True, reach=Reach.ANYWHERE)) == "refused"


def test_a_place_that_only_keeps_what_it_has_is_not_asked_for_its_type() -> None:
    assert reason(Copy(at("a", "x"), KEEP)) == "allowed"


def test_a_paused_namespace_holds_all_copies() -> None:
    assert reason(wanted(), {PAUSED: "true"}) == "held"
    assert reason(wanted(named=True), {PAUSED: "true"}) == "held"
    assert reason(wanted(), labels={PAUSED: "true"}) == "held"
    assert reason(wanted(), {PAUSED: "false"}) == "allowed"


def test_an_ignored_namespace_is_no_target_of_all_but_of_a_name() -> None:
    assert reason(wanted(), {IGNORE: "true"}) == "spared"
    assert reason(wanted(), labels={IGNORE: "true"}) == "spared"
    assert reason(wanted(named=True), {IGNORE: "true"}) == "allowed"


def test_without_consent_a_copy_is_refused_and_withdrawn() -> None:
    assert reason(wanted(), of=dialect(consent=True)) == "not-accepted+withdraw"
    assert reason(wanted(), {ACCEPT: "other"}, dialect(consent=True)) == "not-accepted+withdraw"
    assert reason(wanted(), {ACCEPT: "admin"}, dialect(consent=True)) == "allowed"


def test_a_source_needs_no_consent_of_its_own_namespace() -> None:
    assert reason(wanted("admin"), of=dialect(consent=True)) == "allowed"


def test_a_dialect_that_asks_for_no_consent_needs_none() -> None:
    assert reason(wanted(), {ACCEPT: "other"}) == "allowed"


CONSENTS = [
    ("admin", True),
    ("*", True),
    ("other, admin", True),
    ("admin:Secret/x", True),
    ("admin:Secret/y", False),
    ("admin:ConfigMap/x", False),
    ("", False),
    (" , ", False),
    ("adm", False),
    ("admin*", False),
    ("ADMIN", False),
    ("admin/x", False),
]


@pytest.mark.parametrize(("consent", "accepted"), CONSENTS)
def test_consent_names_a_namespace_an_object_or_everything(consent: str, accepted: bool) -> None:
    assert accepts(consent, SOURCE) is accepted
