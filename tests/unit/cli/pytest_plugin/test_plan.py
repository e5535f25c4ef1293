"""Options of the marker: today's names, and the old one of rules with a warning."""

import pytest

from ncubble.cli.pytest_plugin.result import current, gate_of
from ncubble.errors import UsageError


def test_the_old_name_of_rules_works_with_a_warning_and_both_are_refused():
    with pytest.warns(DeprecationWarning, match="limits= is now called rules="):
        options = current({"min": 50, "limits": ["cycles <= 2e6"]})
    assert options == {"min": 50, "rules": ["cycles <= 2e6"]}
    assert [rule.text for rule in gate_of(options).rules] == ["tensor_elapsed_pct >= 50", "cycles <= 2000000"]
    assert current({"min": 50}) == {"min": 50}
    with pytest.raises(UsageError, match="its old name limits="):
        current({"limits": [], "rules": []})
