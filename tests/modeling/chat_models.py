"""Tiny models of random weights in the layouts of published chat models: tokenizer, template, ends and architecture.

What a layout says comes from the published config.json, generation_config.json, tokenizer_config.json and
chat_template of the model named; templates are reduced to system, user and assistant turns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

CHATML = (
    "{%- if messages[0]['role'] != 'system' %}{{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}"
    "{%- endif %}{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)
THINKING = (
    "{%- for message in messages %}{%- if message.role == 'assistant' %}{%- set content = message.content %}"
    "{%- set thought = '' %}{%- if '</think>' in content %}"
    "{%- set thought = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}"
    "{%- set content = content.split('</think>')[-1].lstrip('\n') %}{%- endif %}"
    "{{- '<|im_start|>assistant\n<think>\n' + thought.strip('\n') + '\n</think>\n\n' + content + '<|im_end|>\n' }}"
    "{%- else %}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{%- endif %}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}"
    "{%- endif %}"
)
LLAMA = (
    "{{- bos_token }}{%- for message in messages %}"
    "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim }}"
    "{{- '<|eot_id|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"
)
GEMMA = (
    "{{ bos_token }}{%- for message in messages -%}"
    "{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception('Roles must alternate') }}"
    "{%- endif -%}{%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}"
    "{{ '<start_of_turn>' + role + '\n' }}{{ message['content'] | trim }}{{ '<end_of_turn>\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}"
)
MISTRAL = (
    "{{- bos_token }}{%- for message in messages %}{%- if message['role'] == 'user' %}"
    "{{- '[INST] ' + message['content'] + '[/INST]' }}{%- else %}"
    "{{- ' ' + message['content'] | trim + eos_token }}{%- endif %}{%- endfor %}"
)
PHI = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
)

QWEN_MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
LLAMA_MARKS = (
    *("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>"),
    *("<|eom_id|>", "<|eot_id|>", "<|python_tag|>"),
)


@dataclass(frozen=True)
class Layout:
    """What the files of a chat model say; tokens stand for their ids."""

    model_type: str
    template: str | None
    marks: tuple[str, ...]
    """Special tokens."""
    turn_end: str
    """What a response should end with."""
    names: Mapping[str, str]
    """eos_token, pad_token and bos_token of the tokenizer."""
    config_ends: str | tuple[str, ...] | None
    generation: Mapping[str, Any] | None
    """generation_config.json; its eos_token_id holds tokens."""
    text_marks: tuple[str, ...] = ()
    """Tokens that are added, but not special."""
    sentencepiece: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)
    rstrip: tuple[str, ...] = ()
    """Marks that swallow the white space behind them."""


QWEN_BASE = Layout(
    "qwen2",
    CHATML,
    QWEN_MARKS,
    "<|im_end|>",
    {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"},
    "<|endoftext|>",
    {"do_sample": False, "eos_token_id": "<|endoftext|>", "max_new_tokens": 2048},
)
GEMMA_MARKS = ("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>")
PHI_MARKS = ("<unk>", "<s>", "</s>", "<|endoftext|>", "<|assistant|>", "<|user|>", "<|system|>", "<|end|>")
LAYOUTS = {
    "qwen2.5-base": QWEN_BASE,
    "qwen2.5-instruct": Layout(
        "qwen2",
        CHATML,
        QWEN_MARKS,
        "<|im_end|>",
        {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
        "<|im_end|>",
        {
            "do_sample": True,
            "repetition_penalty": 1.05,
            "temperature": 0.7,
            "top_k": 20,
            "top_p": 0.8,
            "eos_token_id": ("<|im_end|>", "<|endoftext|>"),
        },
    ),
    "qwen3": Layout(
        "qwen3",
        THINKING,
        QWEN_MARKS,
        "<|im_end|>",
        {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
        "<|im_end|>",
        {"do_sample": True, "eos_token_id": ("<|im_end|>", "<|endoftext|>"), "temperature": 0.6, "top_k": 20},
        text_marks=("<think>", "</think>", "<tool_call>"),
    ),
    "qwen3-base": Layout(
        "qwen3",
        THINKING,
        QWEN_MARKS,
        "<|im_end|>",
        {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"},
        "<|endoftext|>",
        {"do_sample": False, "eos_token_id": "<|endoftext|>", "max_new_tokens": 2048},
        text_marks=("<think>", "</think>"),
    ),
    "llama3": Layout(
        "llama",
        LLAMA,
        LLAMA_MARKS,
        "<|eot_id|>",
        {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"},
        ("<|end_of_text|>", "<|eot_id|>"),
        {"do_sample": True, "eos_token_id": ("<|end_of_text|>", "<|eot_id|>"), "temperature": 0.6, "top_p": 0.9},
    ),
    "llama3.1": Layout(
        "llama",
        LLAMA,
        LLAMA_MARKS,
        "<|eot_id|>",
        {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"},
        ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"),
        {"do_sample": True, "eos_token_id": ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"), "top_p": 0.9},
        config={
            "rope_parameters": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 256,
                "rope_theta": 10000.0,
            }
        },
    ),
    "gemma3": Layout(
        "gemma3_text",
        GEMMA,
        GEMMA_MARKS,
        "<end_of_turn>",
        {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"},
        ("<eos>", "<end_of_turn>"),
        {"do_sample": True, "eos_token_id": ("<eos>", "<end_of_turn>"), "top_k": 64, "top_p": 0.95},
        text_marks=("\n\n",),
        sentencepiece=True,
        config={"sliding_window": 64, "query_pre_attn_scalar": 16, "head_dim": 16},
    ),
    "mistral": Layout(
        "mistral",
        MISTRAL,
        ("<unk>", "<s>", "</s>", "[INST]", "[/INST]"),
        "</s>",
        {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
        "</s>",
        {"eos_token_id": "</s>"},
        sentencepiece=True,
    ),
    "phi3": Layout(
        "phi3",
        PHI,
        PHI_MARKS,
        "<|end|>",
        {"bos_token": "<s>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "unk_token": "<unk>"},
        "<|endoftext|>",
        {"eos_token_id": ("<|endoftext|>", "<|assistant|>", "<|end|>")},
        sentencepiece=True,
        rstrip=("<|assistant|>", "<|user|>", "<|system|>", "<|end|>"),
    ),
}
PROMPTS = [f"Say {number}." for number in range(10)]
ANSWERS = [str(number) for number in range(10)]


def build_tokenizer(layout: Layout) -> PreTrainedTokenizerFast:
    """Return a tokenizer of the layout whose words are those of PROMPTS."""
    words = ["system user assistant model You are a helpful assistant.", *PROMPTS * 20]
    if layout.sentencepiece:
        pieces = sorted({character for text in words for character in text} | {*"0123456789-\n", "\u2581"})
        vocabulary = {piece: at for at, piece in enumerate([*layout.marks, *pieces])}
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
        tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
        tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.Fuse()])
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, show_progress=False)
        tokenizer.train_from_iterator(words, trainer)
    marks = [AddedToken(m, special=True, normalized=False, rstrip=m in layout.rstrip) for m in layout.marks]
    tokenizer.add_special_tokens(marks)
    tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in layout.text_marks])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, padding_side="left", **layout.names
    )
    fast.chat_template = layout.template
    return fast


def save_model(layout: Layout, folder: Path) -> PreTrainedTokenizerFast:
    """Write a model folder of the layout; return its tokenizer."""
    tokenizer = build_tokenizer(layout)
    sizes = {
        "vocab_size": len(tokenizer) + 7,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "pad_token_id": tokenizer.pad_token_id,
        "initializer_range": 0.1,
    }
    torch.manual_seed(0)
    ends = ids_of(tokenizer, layout.config_ends)
    config = AutoConfig.for_model(layout.model_type, **{**sizes, **layout.config}, eos_token_id=ends)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    path = folder / "generation_config.json"
    if layout.generation is None:
        path.unlink(missing_ok=True)
    else:
        named = ids_of(tokenizer, layout.generation["eos_token_id"])
        path.write_text(json.dumps({**layout.generation, "eos_token_id": named, "transformers_version": "4.51.0"}))
    return tokenizer


def ids_of(tokenizer: PreTrainedTokenizerFast, tokens: str | tuple[str, ...] | None) -> int | list[int] | None:
    """Return ids of tokens: None, one or many."""
    if tokens is None or isinstance(tokens, str):
        return None if tokens is None else tokenizer.convert_tokens_to_ids(tokens)
    return tokenizer.convert_tokens_to_ids(list(tokens))
