"""The tables of the commands below `namespace`, `template` and `sub`."""

from __future__ import annotations

from samara.cli.accurate.base import Entry, Group

namespace = Group(
    {
        "describe": Entry("namespace", "Show a namespace and what it gets and passes on.", "describe"),
        "set-type": Entry("namespace", "Make a namespace a root, a template, or neither.", "set_type"),
    },
    name="namespace",
    help="Show a namespace, or set its type.",
)
template = Group(
    {
        "list": Entry("lists", "List templates and their instances.", "of_templates", alias="ls"),
        "set": Entry("template", "Make a namespace an instance of a template.", "set_"),
        "unset": Entry("template", "Make a namespace an instance of none.", "unset"),
    },
    name="template",
    help="List templates, and set or unset that of a namespace.",
)
sub = Group(
    {
        "create": Entry("sub", "Create a sub-namespace.", "create"),
        "delete": Entry("sub", "Delete a sub-namespace.", "delete"),
        "move": Entry("sub", "Give a sub-namespace another parent.", "move"),
        "graft": Entry("sub", "Make a namespace a sub-namespace.", "graft"),
        "cut": Entry("sub", "Make a sub-namespace a root.", "cut"),
        "list": Entry("lists", "List namespace trees.", alias="ls"),
    },
    name="sub",
    help="Create, delete, move, graft, cut and list sub-namespaces.",
)
