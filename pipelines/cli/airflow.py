"""posttrain airflow: a local Airflow, and the pools that recipes need in any Airflow."""

from __future__ import annotations

import argparse

from pipelines.cli.stores import store_of


def up(arguments: argparse.Namespace) -> int:
    """Start Airflow on this machine and keep it until Ctrl-C."""
    from pipelines.engines.airflow.standalone.up import up as keep_up

    return keep_up(store_of(arguments), port=arguments.port)


def init(arguments: argparse.Namespace) -> int:
    """Create the pools that Airflow lacks; existing ones stay unchanged."""
    from pipelines.engines.airflow.client import Account, Client
    from pipelines.engines.airflow.deployment import Deployment
    from pipelines.engines.airflow.pools import create_pools
    from pipelines.recipe.pools import load_pools

    account = Account.read(Deployment.beside(store_of(arguments)))
    for name, made in create_pools(Client(account), load_pools()).items():
        print(f"{name}: {'created' if made else 'already exists'}")
    return 0
