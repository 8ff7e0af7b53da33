"""Triggers that refuse UPDATE, DELETE and TRUNCATE on a table, in SQLite (which has no TRUNCATE) and PostgreSQL.

Owns their SQL. The name begins with an underscore so that Django takes it for no migration.
"""

EVENTS = ("UPDATE", "DELETE")


def protect(table):
    """For RunPython."""

    def install(_apps, schema_editor):
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(
                f"CREATE FUNCTION {table}_append_only() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN RAISE EXCEPTION '{table} is append-only'; END $$",
                params=None,
            )
        for event in EVENTS:
            schema_editor.execute(_trigger(schema_editor.connection.vendor, table, event), params=None)

    return install


def release(table):
    """The way back."""

    def remove(_apps, schema_editor):
        postgres = schema_editor.connection.vendor == "postgresql"
        for event in EVENTS:
            on = f" ON {table}" if postgres else ""
            schema_editor.execute(f"DROP TRIGGER {table}_no_{event.lower()}{on}", params=None)
        if postgres:
            schema_editor.execute(f"DROP FUNCTION {table}_append_only()", params=None)

    return remove


def keep(table):
    """For RunPython, after `protect`: TRUNCATE passes by the triggers of rows."""

    def install(_apps, schema_editor):
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(
                f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} FOR EACH STATEMENT "
                f"EXECUTE FUNCTION {table}_append_only()",
                params=None,
            )

    return install


def let_go(table):
    """The way back."""

    def remove(_apps, schema_editor):
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(f"DROP TRIGGER {table}_no_truncate ON {table}", params=None)

    return remove


def _trigger(vendor, table, event):
    head = f"CREATE TRIGGER {table}_no_{event.lower()} BEFORE {event} ON {table} FOR EACH ROW"
    if vendor == "postgresql":
        return f"{head} EXECUTE FUNCTION {table}_append_only()"
    return f"{head} BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
