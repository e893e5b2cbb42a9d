"""An Airflow sensor that waits until a dataset is complete."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    return {
        "package-name": "airflow-provider-noted-time",
        "name": "noted-time",
        "description": "Wait until a dataset is complete to a time.",
        "connection-types": [
            {
                "connection-type": "noted_time",
                "hook-class-name": "noted_time_airflow.hook.NotedTimeHook",
                "hook-name": "noted-time",
                "ui-field-behaviour": {
                    "hidden-fields": ["login", "extra"],
                    "relabeling": {"schema": "Scheme", "password": "Token"},
                    "placeholders": {
                        "host": "controller, or URLs separated by commas",
                        "schema": "http",
                        "port": "7464",
                        "password": "nt_…, with the scope read",
                    },
                },
            }
        ],
    }
