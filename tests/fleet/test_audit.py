"""The audit chain: that it verifies on both databases whatever it holds, and that nothing in it can be changed unnoticed."""

import pytest
from django.db import DatabaseError, connection, transaction

from fleet.act import audit
from fleet.act.audit import Entry
from fleet.models import AuditEntry

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.db]


def entry(at: float = 1_800_000_000.25, **facts: object) -> AuditEntry:
    return audit.append(Entry(at, "olga", "web", "tested", facts=facts))


@pytest.mark.parametrize(
    "value",
    [
        0.1 + 0.2,
        1e16,
        1e22,
        -0.0,
        1e-9,
        5e-324,
        60.0,
        2**53 + 1,
        2**63,
        -(2**63),
        "é\u2028😀",
        {"b": 1, "a": {"d": 2, "c": 3}},
        [[], {}],
    ],
)
def test_the_chain_verifies_whatever_a_database_makes_of_it(value):
    entry(value=value)
    found = audit.verify()
    assert (found.entries, found.broken) == (1, None)


def test_a_whole_number_is_a_time_as_well():
    entry(at=1_800_000_000)
    assert audit.verify().broken is None


def test_an_entry_that_is_written_while_somebody_verifies_is_no_break():
    entry()
    more = [1]

    def slow(execute, sql, *args):
        if more and sql.startswith("SELECT") and 'FROM "vigie_audit_entry"' in sql:
            more.pop()
            entry(late=True)
        return execute(sql, *args)

    with connection.execute_wrapper(slow):
        assert audit.verify().broken is None
    assert not more


def tampered(sql: str) -> None:
    """Whoever owns the database can put a trigger out of order."""
    table = AuditEntry._meta.db_table
    with connection.cursor() as cursor, transaction.atomic():
        if connection.vendor == "postgresql":
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
            cursor.execute(sql)
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER ALL")
        else:
            cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s", [table])
            triggers = cursor.fetchall()
            for name, _ in triggers:
                cursor.execute(f"DROP TRIGGER {name}")
            cursor.execute(sql)
            for _, made in triggers:
                cursor.execute(made)


@pytest.mark.parametrize(
    ("sql", "broken"),
    [
        ("UPDATE vigie_audit_entry SET actor = 'ada' WHERE number = 2", 2),
        ("UPDATE vigie_audit_entry SET at = at + 1 WHERE number = 1", 1),
        ("UPDATE vigie_audit_entry SET facts = '{\"n\": 3}' WHERE number = 3", 3),
        ("DELETE FROM vigie_audit_entry WHERE number = 1", 1),
        ("DELETE FROM vigie_audit_entry WHERE number = 2", 2),
        ("DELETE FROM vigie_audit_entry WHERE number = 3", 3),
        ("DELETE FROM vigie_audit_entry", 1),
        ("UPDATE vigie_audit_head SET number = 2", 4),
        ("UPDATE vigie_audit_head SET hash = 'x'", 4),
        ("DELETE FROM vigie_audit_head", 4),
    ],
)
def test_what_was_changed_is_named(sql, broken):
    for n in range(3):
        entry(n=n)
    tampered(sql)
    assert audit.verify().broken == broken


def test_nobody_empties_it():
    """PostgreSQL can empty a table without looking at its rows; SQLite can only delete them."""
    entry(n=1)
    sql = "TRUNCATE vigie_audit_entry" if connection.vendor == "postgresql" else "DELETE FROM vigie_audit_entry"
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        connection.cursor().execute(sql)
    assert AuditEntry.objects.count() == 1
