from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0003_token_scopes")]

    operations = [
        migrations.AddField(
            model_name="apitoken",
            name="workload",
            field=models.CharField(blank=True, default="", max_length=600),
        ),
        migrations.AlterField(
            model_name="apitoken",
            name="scope",
            field=models.CharField(
                choices=[("read", "Read"), ("act", "Act"), ("report", "Report")], default="read", max_length=16
            ),
        ),
    ]
