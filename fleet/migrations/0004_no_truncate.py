"""What is append-only cannot be emptied either."""

from django.db import migrations

from fleet.migrations._append_only import keep, let_go


class Migration(migrations.Migration):

    dependencies = [
        ('fleet', '0003_checkpoints'),
    ]

    operations = [
        migrations.RunPython(keep('vigie_health_transition'), let_go('vigie_health_transition')),
        migrations.RunPython(keep('vigie_audit_entry'), let_go('vigie_audit_entry')),
    ]
