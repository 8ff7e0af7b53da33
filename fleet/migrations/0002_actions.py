"""Actions with their steps and lanes, and the audit chain with its head."""

import django.db.models.deletion
from django.db import migrations, models

from fleet.migrations._append_only import protect, release


def make_head(apps, schema_editor):
    apps.get_model('fleet', 'AuditHead').objects.create(pk=1)


class Migration(migrations.Migration):

    dependencies = [
        ('fleet', '0001_ledger'),
    ]

    operations = [
        migrations.CreateModel(
            name='AuditHead',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.BigIntegerField(default=0)),
                ('hash', models.CharField(default='', max_length=64)),
            ],
            options={
                'db_table': 'vigie_audit_head',
            },
        ),
        migrations.CreateModel(
            name='Action',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cluster', models.CharField(max_length=253)),
                ('kind', models.CharField(max_length=20)),
                ('target', models.CharField(max_length=253)),
                ('target_uid', models.CharField(blank=True, max_length=64)),
                ('pool', models.CharField(blank=True, max_length=253)),
                ('zone', models.CharField(blank=True, max_length=253)),
                ('rack', models.CharField(blank=True, max_length=253)),
                ('reason', models.TextField(blank=True)),
                ('state', models.CharField(max_length=20)),
                ('plan', models.JSONField()),
                ('digest', models.CharField(max_length=64)),
                ('waivers', models.JSONField(default=list)),
                ('needs_second', models.BooleanField(default=False)),
                ('proposed_by', models.CharField(max_length=150)),
                ('proposed_via', models.CharField(max_length=20)),
                ('proposed_at', models.FloatField()),
                ('expires_at', models.FloatField()),
                ('confirmed_by', models.CharField(blank=True, max_length=150)),
                ('confirmed_via', models.CharField(blank=True, max_length=20)),
                ('confirmed_at', models.FloatField(null=True)),
                ('second_by', models.CharField(blank=True, max_length=150)),
                ('second_at', models.FloatField(null=True)),
                ('started_at', models.FloatField(null=True)),
                ('ended_at', models.FloatField(null=True)),
                ('stop_by', models.CharField(blank=True, max_length=150)),
                ('stop_at', models.FloatField(null=True)),
                ('claimed_by', models.CharField(blank=True, max_length=64)),
                ('claim_until', models.FloatField(default=0.0)),
                ('due_at', models.FloatField(null=True)),
                ('outcome', models.JSONField(default=dict)),
            ],
            options={
                'db_table': 'vigie_action',
                'indexes': [models.Index(fields=['cluster', '-proposed_at'], name='vigie_action_newest'), models.Index(fields=['cluster', 'target', 'state'], name='vigie_action_target'), models.Index(fields=['due_at'], name='vigie_action_due')],
            },
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('number', models.BigIntegerField(primary_key=True, serialize=False)),
                ('at', models.FloatField()),
                ('cluster', models.CharField(blank=True, max_length=253)),
                ('actor', models.CharField(max_length=150)),
                ('via', models.CharField(max_length=20)),
                ('what', models.CharField(max_length=60)),
                ('action', models.BigIntegerField(null=True)),
                ('kind', models.CharField(blank=True, max_length=20)),
                ('target', models.CharField(blank=True, max_length=253)),
                ('facts', models.JSONField(default=dict)),
                ('previous', models.CharField(max_length=64)),
                ('hash', models.CharField(max_length=64)),
            ],
            options={
                'db_table': 'vigie_audit_entry',
                'indexes': [models.Index(fields=['cluster', '-number'], name='vigie_audit_newest'), models.Index(fields=['action'], name='vigie_audit_action')],
            },
        ),
        migrations.CreateModel(
            name='ActionLane',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('uid', models.CharField(max_length=64)),
                ('namespace', models.CharField(max_length=253)),
                ('name', models.CharField(max_length=253)),
                ('place', models.IntegerField()),
                ('state', models.CharField(max_length=20)),
                ('tries', models.IntegerField(default=0)),
                ('retry_at', models.FloatField(default=0.0)),
                ('reason', models.CharField(blank=True, max_length=40)),
                ('facts', models.JSONField(default=dict)),
                ('accepted_at', models.FloatField(null=True)),
                ('gone_at', models.FloatField(null=True)),
                ('replaced_at', models.FloatField(null=True)),
                ('action', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='lanes', to='fleet.action')),
            ],
            options={
                'db_table': 'vigie_action_lane',
                'ordering': ['place'],
                'constraints': [models.UniqueConstraint(fields=('action', 'uid'), name='vigie_lane_once')],
            },
        ),
        migrations.CreateModel(
            name='ActionStep',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.IntegerField()),
                ('kind', models.CharField(max_length=20)),
                ('subject', models.CharField(max_length=253)),
                ('state', models.CharField(max_length=20)),
                ('facts', models.JSONField(default=dict)),
                ('evidence', models.JSONField(default=dict)),
                ('tries', models.IntegerField(default=0)),
                ('started_at', models.FloatField(null=True)),
                ('deadline_at', models.FloatField(null=True)),
                ('done_at', models.FloatField(null=True)),
                ('action', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='fleet.action')),
            ],
            options={
                'db_table': 'vigie_action_step',
                'ordering': ['position'],
                'constraints': [models.UniqueConstraint(fields=('action', 'position'), name='vigie_step_once')],
            },
        ),
        migrations.RunPython(make_head, migrations.RunPython.noop),
        migrations.RunPython(protect('vigie_audit_entry'), release('vigie_audit_entry')),
    ]
