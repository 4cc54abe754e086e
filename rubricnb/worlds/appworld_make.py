"""Write tasks of one's own for AppWorld's engine. Runs in the engine's own environment.

    python appworld_make.py ROOT < tasks.json

``tasks.json`` is {"dataset": name, "tasks": [...]}; see ``appworld_mini`` for a task's fields.
Writes ROOT/data with empty apps, the tasks' notes and their evaluations. Nothing of the benchmark
is read or written: neither its data nor its documentation of APIs. Imports nothing of this
project.
"""

import json
import os
import sys
from datetime import datetime
from pathlib import Path


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def _save_task(row: dict, data: Path, apps: list) -> None:
    import freezegun
    from appworld.apps.admin.models import MainUserMunch
    from appworld.collections.models import ModelCollection
    from appworld.common.constants import DB_VERSION
    from appworld.task import Task

    when = datetime.fromisoformat(row["datetime"])
    me, app = row["supervisor"], row["app"]
    models = ModelCollection.load(
        to_db_home_path=f":memory:task_input-{row['id']}",
        from_db_home_path=str(data / "base_dbs"),
        load_apps=[*apps, "admin"],
    )
    with freezegun.freeze_time(when):
        models.admin.MainUser(**me).save()
        boss = models.supervisor.Supervisor(**me)
        boss.save()
        models.supervisor.Task(supervisor_id=boss.id, instruction=row["instruction"]).save()
        account = {"account_name": app, "password": row["password"]}
        models.supervisor.AccountPassword(supervisor_id=boss.id, **account).save()
        names = {k: me[k] for k in ("first_name", "last_name", "email")}
        user = models[app].User(**names, password=row["password"], verified=True)
        user.save()
        for record in row["records"]:
            models[app][row["model"]](user_id=user.id, **record).save()
    task = Task(
        row["id"],
        row["instruction"],
        MainUserMunch.from_supervisor(boss),
        when,
        apps,
        DB_VERSION,
        model_collection=models,
    )
    task.save(model_collection_format="changes", delete_if_exists=True)
    truth = data / "tasks" / row["id"] / "ground_truth"
    for name in ("public_data", "private_data", "answer", "test_data", "metadata"):
        _write(truth / f"{name}.json", json.dumps(row[name]))
    _write(truth / "evaluation.py", row["evaluation"])
    task.close()


def main(root: str, given: dict) -> None:
    """Write every task of ``given`` and the list of their ids."""
    os.environ["APPWORLD_ROOT"] = root
    from appworld import update_root

    update_root(root)
    from appworld.apps import get_all_apps
    from appworld.collections.models import ModelCollection

    data, apps = Path(root) / "data", get_all_apps(skip_admin=True)
    for app in apps:
        _write(data / "api_docs" / "standard" / f"{app}.json", {})
    everything = [*apps, "admin"]
    empty = ModelCollection.load(
        to_db_home_path=":memory:base", load_apps=everything, create_db=True
    )
    empty.save(str(data / "base_dbs"), app_names=everything, delete_if_exists=True)
    empty.close()
    for row in given["tasks"]:
        _save_task(row, data, apps)
    ids = [row["id"] for row in given["tasks"]]
    _write(data / "datasets" / f"{given['dataset']}.txt", "\n".join(ids) + "\n")
    print(len(ids))


if __name__ == "__main__":
    main(sys.argv[1], json.load(sys.stdin))
