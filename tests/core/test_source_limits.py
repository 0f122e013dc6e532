"""How much the sources of one namespace may ask for together, and which of them are refused."""

from __future__ import annotations

from tests.support.toys import a_sync_to
from tests.support.world import World, at, secret

from samara.core.admission import Request
from samara.core.desired import Fault
from samara.core.model import FIELD_MANAGER, Key, Object, Ref
from samara.core.plan import plan
from samara.core.policy import ClusterPolicy
from samara.core.registry import Registry
from samara.core.restrictions import limited
from samara.core.source_limits import LIMIT_EXCEEDED, SourceLimits, SourceSize, excess, size_of
from samara.core.writes import Create, Delete, Plan, Update
from samara.vocabularies.sync_to import FROM, NAME, SYNC_TO, SYNC_TO_NAMESPACES

LIMITS = SourceLimits(listed_names=5, listed_names_per_namespace=6, source_bytes_per_namespace=400)


def key(name: str, namespace: str = "team") -> Key:
    return Key(NAME, at(namespace, name))


def sizes(*of: tuple[str, int, int]) -> dict[Key, SourceSize]:
    """By name: how many names a source lists, and its bytes. The first is the oldest."""
    return {key(name): SourceSize(f"2026-{month:02}", names, size) for month, (name, names, size) in enumerate(of, 1)}


def refused(*of: tuple[str, int, int]) -> list[str]:
    return [source.source.name for source in excess(sizes(*of), LIMITS)]


def test_the_newest_sources_of_a_namespace_are_refused_when_they_list_too_many_names() -> None:
    assert refused(("a", 3, 1), ("b", 3, 1)) == []
    assert refused(("a", 3, 1), ("b", 3, 1), ("c", 1, 1), ("d", 0, 1)) == ["c"]


def test_the_newest_sources_of_a_namespace_are_refused_when_they_hold_too_many_bytes() -> None:
    assert refused(("a", 0, 200), ("b", 0, 200)) == []
    assert refused(("a", 0, 200), ("b", 0, 201), ("c", 0, 200)) == ["b"]


def test_a_source_with_too_many_names_of_its_own_takes_nothing_from_the_others() -> None:
    assert refused(("a", 100, 1), ("b", 5, 1)) == ["a"]


def test_the_message_names_the_setting() -> None:
    (message,) = excess(sizes(("a", 5, 1), ("b", 5, 1)), LIMITS).values()
    assert "limits.listedNamesPerNamespace" in message


def test_the_size_of_a_source_is_that_of_its_content_labels_and_annotations() -> None:
    body = secret("one")
    source = Object(at("team", "a"), "u", 1, content=body, labels={"ab": "c"}, annotations={"d": "ef"})
    assert size_of(source, 0).size == sum(len(field.raw or b"") for field in body.fields) + 6


# in a plan


def a_world(*names: str) -> World:
    source_type = a_sync_to()
    world = World(Registry((limited(source_type, LIMITS),)))
    for name in ("team", *names):
        world.namespace(name)
    return world


def ask(world: World, name: str, *targets: str, created: str = "2026") -> Ref:
    listed = {SYNC_TO: "namespaces", SYNC_TO_NAMESPACES: ";".join(targets)}
    return world.put(at("team", name), secret("one"), annotations=listed, created=created).ref


def planned(world: World, name: str) -> Plan:
    return plan(key(name), world, world.registry, ClusterPolicy())


def test_a_source_that_exceeds_the_limit_gets_no_copies_and_keeps_those_that_it_has() -> None:
    world = a_world("a", "b", "c", "d", "e")
    ask(world, "first", "a", "b", "c", created="2026-01")
    ask(world, "second", "a", "b", created="2026-02")
    assert {write.ref.namespace for write in planned(world, "second").writes} == {"a", "b"}
    ask(world, "first", "a", "b", "c", "d", "e", created="2026-01")
    world.put(
        at("c", "second"),
        secret("one"),
        by=FIELD_MANAGER,
        labels={FROM: "team-second"},
        annotations={FROM: "team/second"},
    )
    made = planned(world, "second")
    assert made.writes == ()
    (fault,) = made.faults
    assert isinstance(fault, Fault)
    assert fault.reason == LIMIT_EXCEEDED


def test_names_of_another_namespace_do_not_count() -> None:
    world = a_world("a", "b", "c", "d", "e", "other")
    ask(world, "first", "a", "b", "c", "d", "e")
    annotations = {SYNC_TO: "namespaces", SYNC_TO_NAMESPACES: "a;b;c;d;e"}
    world.put(at("other", "second"), secret("one"), annotations=annotations)
    assert len(plan(key("second", "other"), world, world.registry, ClusterPolicy()).writes) == 5


def test_an_object_counts_whose_marks_are_not_proven() -> None:
    """Whether such an object is a source depends on what its marks name, which depends on the limits."""
    world = a_world("a", "b", "c", "d", "e", "f")
    ask(world, "first", "a", "b")
    forged = {FROM: "team/first", SYNC_TO: "namespaces", SYNC_TO_NAMESPACES: "b;c;d"}
    world.put(at("a", "first"), secret("one"), annotations=forged, created="2026-01")
    younger = {SYNC_TO: "namespaces", SYNC_TO_NAMESPACES: "c;d;e;f"}
    world.put(at("a", "second"), secret("one"), annotations=younger, created="2026-02")
    made = plan(key("second", "a"), world, world.registry, ClusterPolicy())
    assert [fault.reason for fault in made.faults] == [LIMIT_EXCEEDED]
    assert planned(world, "first").faults == ()


def test_cluster_does_not_count_as_names() -> None:
    world = a_world(*(f"n{number}" for number in range(9)))
    ask(world, "first", "n1", "n2", "n3", "n4", "n5")
    world.put(at("team", "second"), secret("one"), annotations={SYNC_TO: "cluster"})
    assert len(planned(world, "second").writes) == 9


def test_a_source_with_too_many_names_is_refused_by_its_own_limit() -> None:
    world = a_world("a")
    ask(world, "first", *(f"n{number}" for number in range(6)))
    made = planned(world, "first")
    assert (made.writes, [fault.reason for fault in made.faults]) == ((), [LIMIT_EXCEEDED])
    assert not any(isinstance(write, Create | Update | Delete) for write in made.writes)


def validated(new: Object, old: Object | None = None) -> tuple[str, ...]:
    admission = a_world().registry[NAME].admission
    assert admission is not None
    return admission.validate(Request("CREATE" if old is None else "UPDATE", new, old), a_world())


def a_list(names: str, word: str = "namespaces") -> Object:
    return Object(at("team", "a"), "u", 1, annotations={SYNC_TO: word, SYNC_TO_NAMESPACES: ";".join(names)})


def test_the_webhook_refuses_a_list_that_is_longer_than_the_limit_unless_it_was_so_before() -> None:
    assert ["at most 5 names" in message for message in validated(a_list("abcdef"))] == [True]
    assert validated(a_list("abcdef"), a_list("abcdef")) == ()
    assert len(validated(a_list("abcdefg"), a_list("abcdef"))) == 1
    assert validated(a_list("abcde")) == ()


def test_the_webhook_still_asks_the_vocabulary() -> None:
    assert validated(a_list("abcde", "everywhere")) != ()
