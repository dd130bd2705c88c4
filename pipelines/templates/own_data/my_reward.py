"""The reward of recipe.yaml: a plain function, with the signature of TRL's reward functions."""


def reward(completions: list[str], answer: list[str], **columns: list[object]) -> list[float]:
    """Return a number for each completion: 1 if it is the answer, half of that if the answer is only somewhere in it.

    `answer` holds each row's answer, `columns` the rest: `prompts`, `id`, `domain`, and the columns that the recipe
    lists under `columns: {data: [...]}`. Completions are a model's text: compare it, never evaluate it.
    """
    scores = []
    for completion, right in zip(completions, answer, strict=True):
        said = completion.strip().lower()
        scores.append(1.0 if said == right.lower() else 0.5 if right.lower() in said else 0.0)
    return scores
