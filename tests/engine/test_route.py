"""What a change leads to."""

from __future__ import annotations

import pytest
from tests import toys
from tests.engine.parts import Clock, a_desk, an_object
from tests.world import at

from samara.core.model import Object
from samara.core.want import UNREAD, Definition
from samara.engine.route import concerned
from samara.kube.cache import Change

REF = at("a", "x", toys.FETCH)
ASKED = Definition(toys.FETCH)
WORDS = {toys.PATH: "p", toys.INTO: "b"}
BEFORE = an_object(REF, annotations=WORDS, finalizers=(toys.GUARD,))


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (None, UNREAD),
        (an_object(REF, 2, annotations=WORDS, finalizers=(toys.GUARD,), deleting=True), UNREAD),
        (an_object(REF, 2, annotations=WORDS, finalizers=(toys.GUARD,)), True),
    ],
    ids=["gone", "going", "changed"],
)
def test_an_answer_from_before_the_end_of_a_custom_resource_says_nothing_about_it(
    after: Object | None, told: object
) -> None:
    """The definition may have begun to go in between, and have taken the resource with it."""
    desk = a_desk(Clock(), table=toys.whole_table())
    desk.cache.answers.keep(ASKED, True)
    list(concerned(Change(REF, BEFORE, after), desk))
    assert desk.cache.value(ASKED) is told
