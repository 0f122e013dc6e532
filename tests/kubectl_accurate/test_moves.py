"""Moves with a fault at every request: no namespace is lost, and the messages are true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, get_args

import pytest
from tests.kubectl_accurate.scripted import Scripted, Way, refused

from kubectl_accurate import moves
from kubectl_accurate.client import ApiClient
from samara.kube.errors import SamaraError

Do = Callable[[ApiClient], Coroutine[Any, Any, SamaraError | None]]


async def move(api: ApiClient) -> SamaraError | None:
    return (await moves.move(api, "a", "s", False))[1]


async def graft(api: ApiClient) -> SamaraError | None:
    await moves.graft(api, "plain", "s")
    return None


async def cut(api: ApiClient) -> SamaraError | None:
    return await moves.cut(api, "a")


def world(kind: type[Scripted] = Scripted) -> Scripted:
    made = kind()
    made.space("r", type="root")
    made.space("s", type="root")
    made.space("a", parent="r")
    made.space("b", parent="a")
    made.space("plain", type="root", template="t")
    made.sub("r", "a", labels={"team": "x"})
    made.sub("a", "b")
    return made


def run(server: Scripted, do: Do) -> SamaraError | None:
    try:
        return asyncio.run(do(ApiClient(server)))
    except SamaraError as fault:
        return fault


OPERATIONS = {"move": (move, "a", ("s", "a")), "graft": (graft, "plain", ("s", "plain")), "cut": (cut, "a", None)}


@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize("also_down", [False, True])
@pytest.mark.parametrize("way", get_args(Way))
@pytest.mark.parametrize("name", OPERATIONS)
def test_no_failing_request_loses_a_namespace_or_leaves_half_a_move(
    name: str, way: Way, also_down: bool, is_slow: bool
) -> None:
    do, space, target = OPERATIONS[name]
    for number in count():
        server = world()
        server.fault_at, server.way, server.also_down, server.is_slow = number, way, also_down, is_slow
        before = server.parent(space)
        fault = run(server, do)
        if number >= len(server.sent):
            assert number > 4
            assert fault is None
            return
        context = f"{name}: {way} at {server.sent[number]}"
        server.end()
        assert server.lost == [], context
        changed = server.parent(space) != before
        if fault is None:
            assert changed, context
        if fault is not None and "nothing was changed" in str(fault):
            assert not changed, context
            assert target not in server.subs, context
        if "; undone" in str(fault):
            assert not changed, context
            assert target not in server.subs, context
        if changed and target is not None:
            assert target in server.subs, context


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_refusal_before_the_label_changes_nothing(name: str) -> None:
    do, space, _ = OPERATIONS[name]
    for number in count():
        server = world()
        spaces, subs = str(server.spaces), str(server.subs)
        server.fault_at = number
        fault = run(server, do)
        if server.sent[number] == f"PATCH /namespaces/{space}":
            return
        if server.sent[number].endswith("selfsubjectaccessreviews"):
            continue  # without the access review the move is tried
        assert fault is not None
        assert (str(server.spaces), str(server.subs)) == (spaces, subs)


def test_a_refused_label_is_undone() -> None:
    server = world()
    server.fault_at = writes(move).index("PATCH /namespaces/a")
    fault = run(server, move)
    assert "undone: SubNamespace s/a was deleted again" in str(fault)
    assert set(server.subs) == {("r", "a"), ("a", "b")}


def test_the_error_names_a_change_that_cannot_be_undone() -> None:
    class Stubborn(Scripted):
        def _sub(self, method: str, namespace: str, sent: dict[str, Any]) -> dict[str, Any]:
            if method == "DELETE":
                raise refused()
            return Scripted._sub(self, method, namespace, sent)

    server = world(Stubborn)
    server.fault_at = writes(move).index("PATCH /namespaces/a")
    fault = run(server, move)
    assert "not undone: SubNamespace s/a stays" in str(fault)
    assert "kubectl delete subnamespaces a -n s" in str(fault)


def test_after_a_lost_answer_the_namespace_is_read_and_the_move_continues() -> None:
    server = world()
    server.fault_at, server.way = writes(move).index("PATCH /namespaces/a"), "answer lost"
    assert run(server, move) is None
    assert set(server.subs) == {("s", "a"), ("a", "b")}


def test_a_label_that_may_still_arrive_is_not_undone() -> None:
    server = world()
    server.fault_at, server.way = writes(move).index("PATCH /namespaces/a"), "late"
    fault = run(server, move)
    assert "is not known" in str(fault)
    assert ("s", "a") in server.subs


def test_a_namespace_that_others_write_meanwhile_is_still_moved() -> None:
    busy = iter(range(3))

    class Busy(Scripted):
        def _space(self, method: str, name: str, sent: dict[str, Any], dry: bool) -> dict[str, Any]:
            if method == "PATCH" and next(busy, None) is not None:
                self.spaces[name]["metadata"] |= self._version()
            return Scripted._space(self, method, name, sent, dry)

    assert run(world(Busy), move) is None
    assert next(busy, None) is None


def test_a_namespace_that_another_client_moves_meanwhile_is_not_moved() -> None:
    class Rival(Scripted):
        def _space(self, method: str, name: str, sent: dict[str, Any], dry: bool) -> dict[str, Any]:
            if method == "PATCH":
                self.space(name, parent="b")
            return Scripted._space(self, method, name, sent, dry)

    fault = run(world(Rival), move)
    assert "another client changed namespace a" in str(fault)


def test_a_loop_above_the_new_parent_ends_the_check() -> None:
    server = world()
    server.space("x", parent="y")
    server.space("y", parent="x")

    async def into_the_loop(api: ApiClient) -> SamaraError | None:
        return (await moves.move(api, "a", "x", False))[1]

    assert run(server, into_the_loop) is None


def writes(do: Do) -> list[str]:
    """The requests of a move without faults."""
    server = world()
    assert run(server, do) is None
    return server.sent
