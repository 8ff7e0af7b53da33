"""What scans saw of checkpoints, what trainers say of them, and what operators note where nobody declares anything."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('fleet', '0002_actions'),
    ]

    operations = [
        migrations.CreateModel(
            name='CheckpointRecord',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cluster', models.CharField(max_length=253)),
                ('workload', models.CharField(max_length=600)),
                ('uri', models.TextField(blank=True)),
                ('format', models.CharField(blank=True, max_length=40)),
                ('interval_s', models.FloatField(null=True)),
                ('noted_by', models.CharField(max_length=150)),
                ('noted_at', models.FloatField()),
            ],
            options={
                'db_table': 'vigie_checkpoint_record',
                'indexes': [models.Index(fields=['cluster', 'workload', '-noted_at'], name='vigie_record_newest')],
            },
        ),
        migrations.CreateModel(
            name='CheckpointReport',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cluster', models.CharField(max_length=253)),
                ('workload', models.CharField(max_length=600)),
                ('committed_at', models.FloatField()),
                ('step', models.BigIntegerField(null=True)),
                ('size_bytes', models.BigIntegerField(default=0)),
                ('duration_s', models.FloatField(null=True)),
                ('uri', models.TextField(blank=True)),
                ('received_at', models.FloatField()),
                ('sent_by', models.CharField(max_length=150)),
            ],
            options={
                'db_table': 'vigie_checkpoint_report',
                'indexes': [models.Index(fields=['cluster', 'workload', '-received_at'], name='vigie_report_newest'), models.Index(fields=['received_at'], name='vigie_report_received')],
            },
        ),
        migrations.CreateModel(
            name='CheckpointSeen',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cluster', models.CharField(max_length=253)),
                ('workload', models.CharField(max_length=600)),
                ('uri', models.TextField()),
                ('path', models.TextField()),
                ('step', models.BigIntegerField(null=True)),
                ('state', models.CharField(max_length=20)),
                ('committed_at', models.FloatField(null=True)),
                ('duration_s', models.FloatField(null=True)),
                ('size_bytes', models.BigIntegerField(default=0)),
                ('seen_at', models.FloatField()),
                ('digest', models.CharField(max_length=64, unique=True)),
            ],
            options={
                'db_table': 'vigie_checkpoint_seen',
                'indexes': [models.Index(fields=['cluster', 'workload', '-committed_at'], name='vigie_checkpoint_newest'), models.Index(fields=['seen_at'], name='vigie_checkpoint_seen_at')],
            },
        ),
    ]
