"""The example of an admission policy guards every mark."""

import re

import yaml
from scripts import reference

from samara.assembly import registry_of
from samara.cli.deploy.marks import guarded_marks
from samara.core.metadata_keys import ADOPTED
from samara.settings import Settings
from samara.vocabularies.accurate.labels import PARENT


def test_the_policy_is_up_to_date() -> None:
    assert reference.marks_policy() == reference.POLICY.read_text(), "run make docs"


def test_the_policy_guards_every_mark_of_every_vocabulary() -> None:
    marks = {mark for source_type in registry_of(Settings()).source_types for mark in source_type.ownership.marks}
    # A namespace's parent is a label that administrators write; admission guards the tree.
    assert set(guarded_marks()) == (marks | {ADOPTED}) - {PARENT}
    policy, binding = yaml.safe_load_all(reference.POLICY.read_text())
    variables = {variable["name"]: variable["expression"] for variable in policy["spec"]["variables"]}
    assert set(re.findall(r"'([^']+)'", variables["marks"])) == set(guarded_marks())
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
