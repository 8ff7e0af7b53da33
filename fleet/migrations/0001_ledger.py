"""GPUs: what happened to them, and what they did per minute and hour."""

import django.db.models.deletion
from django.db import migrations, models

from fleet.migrations._append_only import protect, release


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='GpuLineup',
            fields=[
                ('id', models.AutoField(primary_key=True, serialize=False)),
                ('cluster', models.CharField(max_length=253)),
                ('node', models.CharField(max_length=253)),
                ('keys', models.JSONField()),
                ('digest', models.CharField(max_length=64)),
            ],
            options={
                'db_table': 'vigie_gpu_lineup',
                'constraints': [models.UniqueConstraint(fields=('cluster', 'node', 'digest'), name='vigie_lineup_once')],
            },
        ),
        migrations.CreateModel(
            name='GpuHour',
            fields=[
                ('pk', models.CompositePrimaryKey('lineup', 'span', blank=True, editable=False, primary_key=True, serialize=False)),
                ('span', models.IntegerField()),
                ('packed', models.BinaryField()),
                ('lineup', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='fleet.gpulineup')),
            ],
            options={
                'db_table': 'vigie_gpu_hour',
            },
        ),
        migrations.CreateModel(
            name='GpuMinute',
            fields=[
                ('pk', models.CompositePrimaryKey('lineup', 'span', blank=True, editable=False, primary_key=True, serialize=False)),
                ('span', models.IntegerField()),
                ('packed', models.BinaryField()),
                ('lineup', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='fleet.gpulineup')),
            ],
            options={
                'db_table': 'vigie_gpu_minute',
            },
        ),
        migrations.CreateModel(
            name='HealthTransition',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cluster', models.CharField(max_length=253)),
                ('node', models.CharField(max_length=253)),
                ('gpu', models.CharField(max_length=300)),
                ('product', models.CharField(max_length=100)),
                ('at', models.DateTimeField()),
                ('from_state', models.CharField(blank=True, max_length=20)),
                ('to_state', models.CharField(blank=True, max_length=20)),
                ('soft', models.BooleanField(default=False)),
                ('reason', models.CharField(blank=True, max_length=60)),
                ('action', models.CharField(max_length=20)),
                ('evidence', models.JSONField(default=dict)),
                ('boot_id', models.CharField(blank=True, max_length=64)),
                ('planned', models.BooleanField(default=False)),
                ('closes', models.CharField(blank=True, max_length=20)),
                ('instance', models.CharField(blank=True, max_length=100)),
            ],
            options={
                'db_table': 'vigie_health_transition',
                'indexes': [models.Index(fields=['cluster', 'at'], name='vigie_transition_time'), models.Index(fields=['cluster', 'gpu', 'at'], name='vigie_transition_gpu'), models.Index(fields=['cluster', 'node', 'at'], name='vigie_transition_node')],
                'constraints': [models.UniqueConstraint(fields=('cluster', 'node', 'gpu', 'at', 'from_state', 'to_state', 'reason', 'closes', 'instance'), name='vigie_transition_once')],
            },
        ),
        migrations.RunPython(protect('vigie_health_transition'), release('vigie_health_transition')),
    ]
