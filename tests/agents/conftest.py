"""Assertions of the shared contract are rewritten like those of the test files; property tests repeat exactly."""

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.agents.engine_contract")

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")
