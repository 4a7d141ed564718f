"""Who did what, and who may."""

import pytest

from bank.api_key import ApiKey, KeyRole
from bank.audit import AuditEntry
from bank.ledger.errors import InvalidRecord, NotFound, SlotTaken
from bank.ledger.ledger import Ledger
from tests.bank.records import NOW, later

USER = ApiKey("key_1", KeyRole.USER, "a" * 64, "app", NOW)
OPERATOR = ApiKey("key_2", KeyRole.OPERATOR, "b" * 64, "ops", NOW)


def test_the_audit_log_reads_newest_first(ledger: Ledger):
    with ledger.write() as books:
        books.audit.add("key_1", "promote", "student-1", {"generation": 2, "reason": "better"}, NOW)
        books.audit.add("key_1", "rollback", "base", {}, later(1))
        assert books.audit.latest(10) == (
            AuditEntry(2, later(1), "key_1", "rollback", "base", {}),
            AuditEntry(1, NOW, "key_1", "promote", "student-1", {"generation": 2, "reason": "better"}),
        )
        assert len(books.audit.latest(1)) == 1


def test_an_audit_detail_that_is_no_json_is_refused_by_path(ledger: Ledger):
    with pytest.raises(InvalidRecord, match=r"value.when\[0\] is a datetime"), ledger.write() as books:
        books.audit.add("key_1", "promote", "student-1", {"when": [NOW]}, NOW)


def test_a_key_is_found_by_the_hash_of_its_secret_until_it_is_revoked(ledger: Ledger):
    with ledger.write() as books:
        books.keys.add(USER)
        books.keys.add(OPERATOR)
        assert books.keys.by_hash("a" * 64) == USER
        assert books.keys.by_hash("c" * 64) is None
        assert (books.keys.count(), books.keys.count(KeyRole.OPERATOR)) == (2, 1)
        books.keys.revoke("key_1", later(1))
        books.keys.revoke("key_1", later(2))
        assert books.keys.by_hash("a" * 64) is None
        assert books.keys.get("key_1").revoked_at == later(1)
        assert books.keys.count() == 1


def test_a_hash_belongs_to_one_key_and_unknown_keys_are_named(ledger: Ledger):
    with ledger.write() as books:
        books.keys.add(USER)
        with pytest.raises(SlotTaken):
            books.keys.add(ApiKey("key_3", KeyRole.OPERATOR, USER.hash, "copy", NOW))
        with pytest.raises(NotFound):
            books.keys.revoke("key_9", NOW)
        assert books.keys.count() == 1
