"""A conversation keeps the model's own template and its own tokens, on both backends."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.errors import InputError
from components.contract.messages import Message
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.modeling.text.turns import script
from pipelines.models.conversation import Conversation
from tests.modeling.chat_models import LAYOUTS, save_model

CONFIG = SamplingConfig(max_new_tokens=6, temperature=1.0)


@pytest.fixture(scope="module", params=["qwen2.5-base", "gemma3"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that runs on the native decoder, and one that transformers runs."""
    folder = tmp_path_factory.mktemp(request.param)
    save_model(LAYOUTS[request.param], folder)
    return folder


def test_the_next_turn_follows_the_tokens_that_were_drawn(model: Path) -> None:
    policy = load_policy(model)
    talk = Conversation(policy, CONFIG, seed=3)
    assert not talk.forgets
    first = "".join(talk.answer("Say 1."))
    drawn, opening = list(talk._last), list(talk._context)
    assert first == first.encode().decode() and drawn
    "".join(talk.answer("Say 2."))
    user = [Message(role="user", content=text) for text in ("Say 1.", "Say 2.")]
    whole = script(policy.tokenizer, [user[0], Message(role="assistant", content=None), user[1]], policy.ends)
    assert opening == whole.opening
    assert talk._context == [*whole.opening, *drawn, *whole.following(0, drawn)]
    talk.restart()
    assert "".join(Conversation(policy, CONFIG, seed=3).answer("Say 1.")) == first


def test_a_prompt_with_a_mark_of_the_template_is_refused_and_changes_nothing(model: Path) -> None:
    policy = load_policy(model)
    talk = Conversation(policy, CONFIG)
    "".join(talk.answer("Say 1."))
    before = list(talk._context)
    mark = str(policy.tokenizer.convert_ids_to_tokens([policy.ends.trained])[0])
    with pytest.raises(InputError, match="could pass for another turn"):
        list(talk.answer(f"Say 2.{mark}"))
    assert talk._context == before
    assert "".join(talk.answer("Say 2.")) is not None


def test_a_conversation_that_fills_the_model_is_refused(model: Path) -> None:
    policy = load_policy(model)
    talk = Conversation(policy, CONFIG)
    with pytest.raises(InputError, match="start anew"):
        for _ in range(policy.max_positions):
            "".join(talk.answer("Say 1."))
