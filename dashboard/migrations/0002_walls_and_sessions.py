"""Addresses for walls, the list of sessions, and tokens for one cluster."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('dashboard', '0001_people'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='WallAddress',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('cluster', models.CharField(max_length=253)),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('cookie_digest', models.CharField(max_length=64, null=True, unique=True)),
                ('made_by', models.CharField(max_length=150)),
                ('created_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('opened_at', models.DateTimeField(null=True)),
                ('revoked_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.AddField(
            model_name='apitoken',
            name='cluster',
            field=models.CharField(blank=True, default='', max_length=253),
        ),
        migrations.CreateModel(
            name='SignedIn',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('session_key', models.CharField(max_length=40, unique=True)),
                ('browser', models.CharField(blank=True, max_length=100)),
                ('started_at', models.DateTimeField()),
                ('seen_at', models.DateTimeField()),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='signed_in', to=settings.AUTH_USER_MODEL)),
            ],
        ),
    ]
