"""RPO at eta 0 is DPO to the last bit of the trained weights, and above 0 it keeps the chosen responses likely."""

from __future__ import annotations

from pathlib import Path

from components.preference.component import COMPONENT
from tests.stages.preference.data import pairs_folder
from tests.stages.supervised_data import base_model
from tests.support.stage_context import Finished, run_stage


def test_eta_0_is_dpo_and_eta_keeps_the_chosen_likely(tmp_path: Path) -> None:
    given = {"model": base_model(tmp_path / "model"), "dataset": pairs_folder(tmp_path / "data")}

    def trained(folder: str, **loss: object) -> Finished:
        params = {"steps": 6, "batch_size": 8, "preference_loss": loss, "optimizer": {"peak_learning_rate": 1e-2}}
        return run_stage(COMPONENT, tmp_path / folder, params=params, inputs=given)

    dpo, zero, rpo = trained("dpo", name="dpo"), trained("zero", name="rpo", eta=0), trained("rpo", name="rpo", eta=5)
    weights = [(found.outputs["model"] / "model.safetensors").read_bytes() for found in (dpo, zero, rpo)]
    assert weights[0] == weights[1] != weights[2]
    assert dpo.history == zero.history
    assert rpo.history[-1]["chosen_nll"] < dpo.history[-1]["chosen_nll"]
