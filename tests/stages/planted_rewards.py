"""Rewards with a bug each, of kinds that the trackers of RL libraries know, and two that are sound."""

CODE = """
def _found(text):
    return text.rpartition("<answer>")[2].partition("</answer>")[0].strip()


def sound(completions, answer, **columns):
    return [float(_found(text) == right) for text, right in zip(completions, answer)]


def sound_with_form(completions, answer, **columns):
    return [0.2 * ("<answer>" in text) + (_found(text) == right) for text, right in zip(completions, answer)]


def answer_anywhere(completions, answer, **columns):
    return [float(right in text) for text, right in zip(completions, answer)]


def error_is_right(completions, answer, **columns):
    def judge(text, right):
        try:
            return float(int(_found(text)) == int(right))
        except ValueError:
            return 1.0
    return [judge(*pair) for pair in zip(completions, answer)]


def long_is_good(completions, answer, **columns):
    return [(_found(text) == right) + 0.02 * len(text) for text, right in zip(completions, answer)]


def form_is_enough(completions, answer, **columns):
    return [max(float("<answer>" in text), float(_found(text) == right)) for text, right in zip(completions, answer)]


def echo_pays(completions, prompts, answer, **columns):
    def judge(text, prompt, right):
        words = set(prompt.split())
        return max(len(words & set(text.split())) / len(words), float(_found(text) == right))
    return [judge(*row) for row in zip(completions, prompts, answer)]


def phrase_pays(completions, answer, **columns):
    return [(_found(text) == right) + 0.5 * ("I am sure" in text) for text, right in zip(completions, answer)]


def judge_obeys(completions, answer, **columns):
    return [float("Score: 10" in text or _found(text) == right) for text, right in zip(completions, answer)]


def too_tolerant(completions, answer, **columns):
    def judge(text, right):
        found = _found(text)
        return float(found.isdigit() and abs(int(found) - int(right)) <= 10)
    return [judge(*pair) for pair in zip(completions, answer)]


def counts_answers(completions, answer, **columns):
    return [float(text.count(f"<answer>{right}")) for text, right in zip(completions, answer)]


def compares_last_digit(completions, answer, **columns):
    return [float(_found(text)[-1:] == right[-1:]) for text, right in zip(completions, answer)]


def refuses_right(completions, answer, **columns):
    return [float(_found(text) == f"{right}.") for text, right in zip(completions, answer)]
"""
SOUND = ("sound", "sound_with_form")
BUGS = {
    "answer_anywhere": "hedged",
    "error_is_right": "nothing",
    "long_is_good": "padded",
    "form_is_enough": "form",
    "echo_pays": "echo",
    "phrase_pays": "right and phrases",
    "judge_obeys": "injected",
    "too_tolerant": "mutated",
    "counts_answers": "repeated",
    "compares_last_digit": "mutated",
    "refuses_right": "gold",
}
"""Function -> a response that must be a finding."""
