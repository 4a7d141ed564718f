"""Starts: five gateways open one database at the same moment, an empty one, and again when its tables are there."""

from __future__ import annotations

from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, func, inspect, select

from bank.ledger.tables.deployments import deployments
from bank.ledger.tables.keys import api_keys
from benchmarks.chaos.gateway import Gateway
from benchmarks.chaos.setting import Setting

GATEWAYS = 5


def starts_drill(setting: Setting) -> dict[str, float]:
    """Gateways that became ready, twice; the second time the tables are there already."""
    ready = [_all_at_once(setting) for _ in range(2)]
    engine = create_engine(setting.ledger_url)
    with engine.connect() as connection:
        heads = MigrationContext.configure(connection).get_current_heads()
        tables = inspect(connection).get_table_names()
        keys = connection.execute(select(func.count()).select_from(api_keys)).scalar_one()
        positions = connection.execute(select(func.count()).select_from(deployments)).scalar_one()
    engine.dispose()
    return {
        "ready_on_empty": ready[0],
        "ready_on_existing": ready[1],
        "revisions": len(heads),
        "tables": len(tables),
        "operator_keys": keys,
        "first_deployments": positions,
    }


def _all_at_once(setting: Setting) -> int:
    folders = [setting.folder / f"gateway-{number}" for number in range(GATEWAYS)]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    gateways = [Gateway(folder, setting.ledger_url) for folder in folders]
    try:
        for gateway in gateways:
            gateway.start()
        for gateway in gateways:
            gateway.ready()
        return len(gateways)
    finally:
        for gateway in gateways:
            gateway.kill()
