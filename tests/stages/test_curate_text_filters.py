"""Language and quality of texts: by hand, against datatrove's filters, and through the stage."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from components.curate.component import COMPONENT
from components.curate.params import CurateParams
from components.curation.candidate import Candidate
from components.curation.operators.c4 import C4Config, c4_reason
from components.curation.operators.gopher import (
    STOP_WORDS,
    GopherConfig,
    RepetitionConfig,
    gopher_reason,
    repetition_reason,
)
from components.curation.operators.language import LanguageConfig, LanguageFilter
from components.curation.operators.quality import QualityConfig, QualityFilter
from tests.support.stage_context import run_stage, write_jsonl

SAMPLES = {
    "en": "The children were playing in the garden, and their mother was watching them from the window of the house.",
    "de": "Die Kinder spielten im Garten, und ihre Mutter sah ihnen von dem Fenster aus zu; es war nicht mehr hell.",
    "fr": "Les enfants jouaient dans le jardin et leur mère les regardait de la fenêtre, qui donne sur la rue.",
    "es": "Los niños jugaban en el jardín y su madre los miraba por la ventana de la casa, que era muy grande.",
    "it": "I bambini giocavano con la palla e la madre li guardava dalla finestra della casa, che non è grande.",
    "nl": "De kinderen speelden in de tuin en hun moeder keek naar hen van het raam, maar het was niet warm.",
    "pt": "As crianças brincavam com a bola e a mãe olhava da janela da casa, que não é grande, para o jardim.",
    "ru": "Дети играли в саду, а их мать смотрела на них из окна дома.",
    "el": "Τα παιδιά έπαιζαν στον κήπο και η μητέρα τους τα κοιτούσε από το παράθυρο.",
    "zh": "孩子们在花园里玩耍，他们的母亲从窗户里看着他们。",
    "ko": "아이들은 정원에서 놀고 있었고 어머니는 창문에서 그들을 지켜보고 있었다.",
}
PROSE = (
    "The river rises in the hills to the north of the town. It has been used by people who live there for a long time. "
    "Most of them have small boats with which they carry wood, stone and grain. In winter the water is high, and "
    "nobody may cross it. That is why they built a bridge of wood."
)


def text(content: str) -> Candidate:
    return Candidate("x", "d", 0, text=content)


@pytest.mark.parametrize("wanted", SAMPLES)
def test_a_sample_passes_as_its_own_language_only(wanted: str) -> None:
    check = LanguageFilter(LanguageConfig.model_validate({"languages": [wanted]}))
    assert {name: check.reject(text(sample)) for name, sample in SAMPLES.items()} == {
        name: None if name == wanted else "other_language" for name in SAMPLES
    }


def test_several_languages_and_the_share_of_a_script() -> None:
    check = LanguageFilter(LanguageConfig(languages=("en", "ru")))
    assert [name for name in SAMPLES if not check.reject(text(SAMPLES[name]))] == ["en", "ru"]
    mixed = f"{SAMPLES['en']} {SAMPLES['ru']}"  # 64 % of the letters are Latin
    assert check.reject(text(mixed)) == "other_language"
    assert not LanguageFilter(LanguageConfig(min_script_share=0.6)).reject(text(mixed))
    assert not check.reject(text("12 + 7 = 19")), "no letters, no language"
    assert check.reject(text("zxcv qwer asdf poiu lkjh mnbv")), "no function words"


def test_gopher_by_hand() -> None:
    config = GopherConfig()
    words = "the cat and five dogs"

    def reason(content: str, **changed: Any) -> str | None:
        return gopher_reason(content, config.model_copy(update=changed))

    assert len(PROSE.split()) == 59
    assert reason(PROSE) is None
    assert reason(" ".join(PROSE.split()[:49])) == "gopher_short"
    assert reason(" ".join(PROSE.split()[:50])) is None
    assert reason(PROSE, max_words=58) == "gopher_long"
    assert reason("of a " * 30) == "gopher_word_length"
    assert reason(f"{words} " * 10) is None, "5 words of 17 letters: a mean of 3.4"
    assert reason(f"{words} # " * 10) == "gopher_symbols", "10 of 60"
    assert reason(f"{words} {words} # " * 5 + f"{words} ") is None, "5 of 60 words"
    assert reason("\n".join([f"- {words}"] * 10)) == "gopher_bullets"
    assert reason("\n".join([f"- {words}"] * 9 + [words])) is None, "9 of 10 is not more than 90 %"
    assert reason("\n".join([f"{words} so..."] * 4 + [f"{words} so"] * 6), max_symbols=1) == "gopher_ellipses"
    assert reason("\n".join([f"{words} so..."] * 3 + [f"{words} so"] * 7), max_symbols=1) is None
    assert reason(f"{words} 1234 5678 " * 10) == "gopher_letters", "5 of 7"
    assert reason("every cat sees five dogs " * 10) == "gopher_stop_words"
    assert reason("") == "gopher_short"


def test_repetition_by_hand() -> None:
    config = RepetitionConfig()
    different = [f"line {number} says {number * 37 % 101} things of its own kind" for number in range(10)]
    assert repetition_reason(PROSE, config) is None
    lines = RepetitionConfig(ngrams=False)
    assert repetition_reason("\n".join(different), lines) is None
    assert repetition_reason("\n".join([*different[:6], *["x"] * 5]), lines) == "repeated_lines", "4 of 11"
    assert repetition_reason("\n".join([*different[:7], *["x"] * 4]), lines) is None, "3 of 11"
    assert repetition_reason("\n".join([*different[:6], *different[:2]]), lines) == "repeated_lines", "characters"
    assert repetition_reason("\n\n".join([*different[:3], different[0]]), lines) == "repeated_paragraphs"
    assert repetition_reason("a very long tale " * 30, config) == "repeated_ngrams"


def test_c4_by_hand() -> None:
    config = C4Config()
    assert c4_reason(PROSE, config) is None, "five sentences in one line"
    assert c4_reason(PROSE.replace(" That is why they built a bridge of wood.", ""), config) == "c4_few_sentences"
    assert c4_reason(f"{PROSE} Lorem ipsum.", config) == "c4_lorem_ipsum"
    assert c4_reason(PROSE + " {x}.", config) == "c4_curly_bracket"
    assert c4_reason(PROSE + " {x}.", C4Config(brackets=True)) is None
    lines = ["This is one sentence."] * 4
    for line, counts in {
        "And one more.": True,
        "Two words.": True,
        "Word.": False,
        "It has no end": False,
        "It goes on and on...": False,
        "Please enable JavaScript here.": False,
        "See our privacy policy here.": False,
        "It ends with a source.[12]": True,
        f"This is {'x' * 1001} too long.": False,
    }.items():
        least = C4Config(min_line_words=2)
        assert (c4_reason("\n".join([*lines, line]), least) is None) == counts, line


def drawn_texts(count: int) -> list[str]:
    rng = random.Random(0)
    words = [*sorted(STOP_WORDS), *(f"word{n}"[: rng.randint(2, 7)] + "abc" for n in range(40))]
    found = []
    for _ in range(count):
        few = rng.sample(words, rng.choice([4, 12, 40]))
        lines = []
        for _ in range(rng.randint(1, 12)):
            line = " ".join(rng.choices(few, k=rng.randint(3, 25)))
            line = rng.choice(["", "", "- ", "# "]) + line + rng.choice(["", "", ".", "...", " 12 99 7"])
            lines.append(rng.choice([line, *lines[-1:]]))
        found.append(rng.choice(["\n", "\n\n"]).join(lines))
    return found


def test_gopher_agrees_with_datatrove_on_words_parted_by_white_space(monkeypatch: pytest.MonkeyPatch) -> None:
    from datatrove.data import Document
    from datatrove.pipeline.filters import gopher_quality_filter, gopher_repetition_filter

    for module in (gopher_quality_filter, gopher_repetition_filter):
        monkeypatch.setattr(module, "split_into_words", lambda text, language: text.split())
    theirs = gopher_quality_filter.GopherQualityFilter(), gopher_repetition_filter.GopherRepetitionFilter()
    passed = [0, 0]
    for content in drawn_texts(1500):
        ours = gopher_reason(content, GopherConfig()), repetition_reason(content, RepetitionConfig())
        for place, check in enumerate(theirs):
            verdict = check.filter(Document(text=content, id="x")) is True
            assert (ours[place] is None) == verdict, (content, ours[place])
            passed[place] += verdict
    assert 100 < passed[0] < 1400, "both verdicts are common"
    assert 100 < passed[1] < 1400


def test_switches_of_quality() -> None:
    junk = text("buy now " * 40)
    assert QualityFilter(QualityConfig()).reject(junk) == "gopher_stop_words"
    assert QualityFilter(QualityConfig(gopher=None)).reject(junk) == "repeated_ngrams"
    assert QualityFilter(QualityConfig(gopher=None, repetition=None)).reject(junk) is None
    assert QualityFilter(QualityConfig(gopher=None, repetition=None, c4=C4Config())).reject(junk) == "c4_few_sentences"


def test_the_stage_counts_what_it_drops(tmp_path: Path) -> None:
    texts = [PROSE, PROSE, "Short.", SAMPLES["de"] * 3, "buy now " * 40]
    source = {"name": "jsonl", "columns": {"text": "text"}}
    source["path"] = str(write_jsonl(tmp_path / "in", [{"text": one} for one in texts], name="in.jsonl") / "in.jsonl")
    params = {"kind": "corpus", "sources": [{"source": source, "domain": "web"}], "language": "on", "quality": "on"}
    finished = run_stage(COMPONENT, tmp_path / "run", params=params)
    card = json.loads((finished.outputs["dataset"] / "card.json").read_text())
    assert card["num_rows"] == 1
    assert card["drops"] == {"duplicate": 1, "other_language": 3}
    assert card["num_drawn"] == 5
    params["language"] = "off"
    finished = run_stage(COMPONENT, tmp_path / "again", params=params)
    assert {name: count for name, count in finished.metrics.items() if name.startswith("dropped_")} == {
        "dropped_duplicate": 1,
        "dropped_gopher_short": 1,
        "dropped_gopher_stop_words": 2,
    }


def test_quality_is_for_a_corpus() -> None:
    with pytest.raises(ValidationError, match=r"quality: its rules are for running text.*; use kind: corpus"):
        CurateParams.model_validate({"sources": [{"source": {"name": "artifact"}}], "quality": "on"})


def test_words_in_the_card(tmp_path: Path) -> None:
    rows = [{"text": PROSE, "kind": "a"}, {"text": "two words", "kind": "b"}, {"text": "and three more", "kind": "b"}]
    source = {"name": "jsonl", "columns": {"text": "text", "domain": "kind"}}
    source["path"] = str(write_jsonl(tmp_path / "in", rows, name="in.jsonl") / "in.jsonl")
    params = {"kind": "corpus", "sources": [{"source": source}], "count_tokens": True}
    finished = run_stage(COMPONENT, tmp_path / "run", params=params)
    card = json.loads((finished.outputs["dataset"] / "card.json").read_text())
    assert card["tokens"] == {"unit": "words", "total": 64, "domains": {"a": 59, "b": 5}}
    assert finished.metrics["num_words"] == 64


def test_tokens_by_the_tokenizer_of_a_model(tmp_path: Path) -> None:
    from components.modeling.text.tokenizer import train_tokenizer

    tokenizer = train_tokenizer(["The river rises."], {"a": ["The river", "The rivers"]})
    tokenizer.save_pretrained(tmp_path / "model")
    rows = [{"prompt": "The river", "answer": "rises", "response": "falls"}]
    source = {"name": "jsonl", "columns": {"response": "response"}}
    source["path"] = str(write_jsonl(tmp_path / "in", rows, name="in.jsonl") / "in.jsonl")
    params = {"kind": "demonstrations", "sources": [{"source": source, "domain": "a"}], "count_tokens": True}
    finished = run_stage(COMPONENT, tmp_path / "run", params=params, inputs={"policy": tmp_path / "model"})
    card = json.loads((finished.outputs["dataset"] / "card.json").read_text())
    expected = len(tokenizer.encode("The river\nfalls", add_special_tokens=False))
    assert card["tokens"] == {"unit": "tokens", "total": expected, "domains": {"a": expected}}
    assert finished.metrics["num_tokens"] == expected
