"""The reward of recipe.yaml: a plain function, with the signature of TRL's reward functions."""


def reward(completions: list[str | list[dict[str, str]]], answer: list[str], **columns: list[object]) -> list[float]:
    """Return a number for each completion: 1 if it is the answer, half of that if the answer is only somewhere in it.

    `answer` holds each row's answer, `columns` the rest: `prompts`, `id`, `domain`, and further columns of the rows.
    Completions are a model's text, in a list with one message where the row's prompt is a list of messages: compare it,
    never evaluate it.
    """
    scores = []
    for completion, right in zip(completions, answer, strict=True):
        text = completion if isinstance(completion, str) else completion[0]["content"]
        said = text.strip().lower()
        scores.append(1.0 if said == right.lower() else 0.5 if right.lower() in said else 0.0)
    return scores
