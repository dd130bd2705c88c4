"""The Kubeflow engine as the command line sees it. Imports no kfp before it runs or compiles something."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from pipelines.engines.engine import Capabilities, Engine, KeptSchedule, RunOptions

if TYPE_CHECKING:
    from components.runtime.store import Store
    from pipelines.engines.kubeflow.client.api import Client
    from pipelines.plan.plan import Plan
    from pipelines.recipe.recipe import Recipe
    from pipelines.runs.runs import RunResult
    from pipelines.runs.view import RunView


class KubeflowEngine(Engine):
    """A recipe is a pipeline; every stage is a Job on its pool, or a JobSet or a TrainJob on several nodes."""

    name = "kubeflow"
    summary = "as a pipeline: pods of the pools' nodes"
    capabilities = Capabilities(
        approvals=True,
        retries=True,
        going_on=True,
        timeouts=True,
        several_nodes=True,
        pods=True,
        uploads=True,
        schedules=True,
        cancellation=True,
    )
    decides = "pools and their nodes decide"

    def check_machine(self) -> None:
        """Raise InputError that says where Kubeflow's libraries are, if this environment has none."""
        if find_spec("kfp") is None:
            how = "make .venv-kubeflow/.installed, then .venv-kubeflow/bin/posttrain in place of posttrain"
            raise InputError(f"Kubeflow's libraries have an environment of their own: {how}")

    def refusals(self, plan: Plan) -> Iterator[str]:
        """Yield that the pipeline is too large for a cluster; known where kfp is, as a pipeline has to be made."""
        if find_spec("kfp") is None:
            return
        from pipelines.engines.kubeflow.compiler.compiler import size_refusal
        from pipelines.engines.kubeflow.compiler.settings import Settings

        if refusal := size_refusal(plan.recipe, Settings.read()):
            yield refusal

    def run(self, plan: Plan, store: Store, view: RunView, options: RunOptions) -> RunResult:
        """Run a plan on the Kubeflow that the environment names; Ctrl-C stops the run there."""
        from pipelines.engines.kubeflow.client.account import Account
        from pipelines.engines.kubeflow.client.api import Client
        from pipelines.engines.kubeflow.client.submit import run_on_kubeflow
        from pipelines.engines.kubeflow.compiler.settings import Settings

        account = Account.read()
        settings = Settings.read()
        return run_on_kubeflow(plan, store, Client(account), settings, view=view, new=options.new)

    def compile(self, recipe: Recipe, store: str | None) -> str:
        """Return the pipeline of a whole recipe as YAML; `store` is what runs use unless they name another."""
        self.check_machine()
        from pipelines.engines.kubeflow.compiler.compiler import compile_recipe
        from pipelines.engines.kubeflow.compiler.settings import Settings

        return compile_recipe(recipe, Settings.read(), store=store)

    def keep_schedule(self, recipe: Recipe, store: Store) -> KeptSchedule:
        """Create the recipe's recurring run, in place of an earlier one of its name."""
        from pipelines.engines.kubeflow.client.recurring import keep
        from pipelines.engines.kubeflow.compiler.settings import Settings

        if "://" not in store.uri:
            raise InputError(f"engine kubeflow cannot work on the folder {store.uri}: pods cannot see it; use a bucket")
        return keep(recipe, store, self._client(), Settings.read())

    def end_schedule(self, recipe: Recipe, store: Store, *, delete: bool) -> KeptSchedule:
        """Switch the recipe's recurring run off, or delete it."""
        from pipelines.engines.kubeflow.client.recurring import end

        return end(recipe, self._client(), delete=delete)

    def kept_schedules(self, store: Store) -> list[KeptSchedule]:
        """Return the recurring runs of recipes."""
        from pipelines.engines.kubeflow.client.recurring import listed

        return listed(self._client())

    def _client(self) -> Client:
        self.check_machine()
        from pipelines.engines.kubeflow.client.account import Account
        from pipelines.engines.kubeflow.client.api import Client

        return Client(Account.read())

    def take_decision(self, store: Store, entry: Mapping[str, Any], stage: str, *, approved: bool) -> str | None:
        """Leave the decision in the store: the task that asked for it looks there."""
        return "in Kubeflow"
