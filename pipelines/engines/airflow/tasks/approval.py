"""The operator that asks a person before a stage."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException

from pipelines.engines.airflow.graphs.drawing import Question

if TYPE_CHECKING:
    from pipelines.engines.airflow.tasks.stage_run import StageRun


class ApprovalTask(ApprovalOperator):
    """Asks before a stage, cached or not, unless it is skipped; the answer is also in the store, and stands."""

    def __init__(self, *, recipe: str, stage: str, question: Question, **operator: Any) -> None:
        limit = question.timeout_seconds
        default = self.APPROVE if question.on_timeout == "approve" else self.REJECT
        super().__init__(
            subject=question.message,
            body=f"Stage `{stage}` of recipe `{{{{ dag.dag_id }}}}`, run `{{{{ dag_run.run_id }}}}`.",
            defaults=default if limit is not None else None,
            response_timeout=timedelta(seconds=limit) if limit is not None else None,
            fail_on_reject=True,
            **operator,
        )
        self.recipe, self.stage = recipe, stage

    def execute(self, context: Any) -> Any:
        """Continue if no answer is needed or one is recorded; else wait for an answer in Airflow."""
        from pipelines.engines.airflow.tasks.stage_run import StageRun
        from pipelines.engines.shared.approvals import Decision, decide

        run = StageRun(context, self.recipe, self.stage, self.log)
        if run.settled():
            self.log.info("nobody is asked: the stage is skipped, or has ended")
            return None
        decision = decide(run.question(), run.store, lambda job: None)
        if decision is Decision.WAITING:
            return super().execute(context)
        return self._follow(run, approved=decision is Decision.APPROVED)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Record the answer; the first one stands."""
        from pipelines.engines.airflow.tasks.stage_run import StageRun
        from pipelines.engines.shared.approvals import TIME_LIMIT, Decision, decide, record_decision

        if "error" in event:
            self.process_trigger_event_error(event)
        run = StageRun(context, self.recipe, self.stage, self.log)
        user = event.get("responded_by_user")
        by = (user.get("name") or user.get("id") if isinstance(user, dict) else user) or TIME_LIMIT
        record_decision(run.store, run.run_id, self.stage, approved=self.APPROVE in event["chosen_options"], by=str(by))
        return self._follow(run, approved=decide(run.question(), run.store, lambda job: None) is Decision.APPROVED)

    def _follow(self, run: StageRun, *, approved: bool) -> None:
        from pipelines.engines.shared.approvals import REJECTED

        if not approved:
            run.record_death(REJECTED)
            raise AirflowFailException(f"stage {self.stage!r}: {REJECTED}")
        self.log.info("approved: %s goes on", self.stage)
