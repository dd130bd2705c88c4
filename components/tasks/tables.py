"""Tables: rows with any columns, read as our rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from components.contract.artifacts import hash_file, hash_parts
from components.contract.errors import InputError, did_you_mean
from components.contract.operators import OperatorSpec
from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.conversations import read_conversation
from components.tasks.slots import VERIFIER
from components.tasks.source import BadRow, SourceConfig, SourceRow, SourceRows
from components.tasks.table_files import NamedRow, read_table
from components.tasks.table_values import checked_text, json_value, row_answers
from components.tasks.verify import SETTINGS
from components.tasks.weights import checked_weight

BadRows = Literal["refuse", "drop"]
ALIASES = "aliases"
"""Key of an item's data with further right answers, as verifier `exact` reads it."""
CONVERSATIONS = ("messages", "conversations", "conversation")
"""Usual names of a column with a whole conversation."""


class Columns(Params):
    """Which column holds what. A dot reaches into objects: `reward_model.ground_truth`."""

    prompt: str = "prompt"
    """The prompt: text, or a list of chat messages; one message of the user is a text, more are kept as messages."""
    messages: str | None = None
    """A column with a whole conversation, in place of the prompt: a list of `role` and `content`, or of `from` and
    `value`. A last message of the assistant is the response, and its final answer the reference if there is no other;
    an assistant's message without content is a turn that the policy writes."""
    answer: str = "answer"
    """The reference answer: text or a number; for verifier exact also a list, of which each entry is right."""
    id: str | None = None
    """A column with identifiers; without one they are derived from content."""
    domain: str | None = None
    """A column with the domain of each row, which replaces the source's."""
    response: str | None = None
    """A column with responses, for demonstrations."""
    text: str | None = None
    """A column with plain text, for a corpus; prompt and answer are not read then."""
    weight: str | None = None
    """A column with the weight of each row in the loss of sft: a number from 0."""
    data: tuple[str, ...] = ()
    """Columns that the verifier reads: options, aliases, pattern."""


class TableConfig(SourceConfig):
    """Config of sources that read tables."""

    columns: Columns = Columns()
    """Which column holds what."""
    verifier: Annotated[OperatorSpec, VERIFIER] = OperatorSpec(name="exact")
    """The verifier of all rows, with its config keys."""
    final_answer: bool = False
    """Take only the final answer from the answer column: after ####, in \\boxed{}, or in <answer>."""
    bad_rows: BadRows = "refuse"
    """What to do with a row that cannot be read: stop with its file and line, or drop and count it."""

    def verifiers(self) -> tuple[str, ...] | None:
        """Return the one verifier of all rows."""
        return (self.verifier.name,)


class FileConfig(TableConfig):
    """Config of sources that read files."""

    paths = ("path",)

    path: str = Field(min_length=1)
    """A file, a folder or a glob pattern, beside the recipe or absolute, or s3://bucket/key; many files are read in
    the order of their names."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """Digest that the file must have (of several files: the digest in the dataset card)."""

    def opened(self, rows: Iterable[NamedRow | BadRow], origin: Mapping[str, Any]) -> SourceRows:
        """Return the named rows of files as a source, mapped by the columns."""
        return SourceRows(table_rows(rows, self), origin)

    def reading(self, files: Sequence[Path]) -> str | None:
        """Return a line that says how local files are read, where columns are recognised."""
        return None

    def further(self, files: Sequence[Path]) -> frozenset[str]:
        """Return the names of the further columns that rows of local files keep."""
        return frozenset(name.rpartition(".")[2] for name in self.columns.data)


def table_rows(rows: Iterable[NamedRow | BadRow], config: TableConfig) -> Iterator[SourceRow | BadRow]:
    """Map named rows by the config's columns; raise InputError with file and line at a bad row, or yield BadRow."""
    config.verifier.resolve()
    return map_rows(rows, lambda where, row: _map_row(where, row, config), config.bad_rows)


def map_rows(
    rows: Iterable[NamedRow | BadRow], read: Callable[[str, Mapping[str, Any]], SourceRow], bad_rows: BadRows
) -> Iterator[SourceRow | BadRow]:
    """Read named rows; at one that `read` raises InputError for, raise it with file and line, or yield BadRow."""
    for row in rows:
        try:
            if isinstance(row, BadRow):
                raise InputError(row.problem)
            yield read(*row)
        except InputError as error:
            where = row.where if isinstance(row, BadRow) else row[0]
            if bad_rows == "refuse":
                raise InputError(f"{where}: {error}") from error
            yield BadRow(where, str(error))


def _map_row(where: str, row: Mapping[str, Any], config: TableConfig) -> SourceRow:
    columns = config.columns
    labels = {
        "id": _text(row, columns.id, "id") if columns.id else None,
        "domain": _text(row, columns.domain, "domain") if columns.domain else None,
    }
    if columns.text:
        return SourceRow(where, text=_text(row, columns.text, "text"), **labels)
    data = further_data(row, columns.data)
    if config.verifier.settings:
        data[SETTINGS] = config.verifier.settings
    task = _task(row, columns)
    answer, aliases = task.pop("answer", None), ()
    if not answer:
        given = _value(row, columns.answer, "answer")
        answer, *aliases = row_answers(given, columns.answer, config.verifier.name)
    if aliases:
        data[ALIASES] = [*data.get(ALIASES, ()), *aliases]
    if columns.weight:
        task["extras"] = {**task.get("extras", {}), "weight": checked_weight(_value(row, columns.weight, "weight"))}
    return SourceRow(
        where,
        **task,
        answer=extract_answer(answer) if config.final_answer else answer,
        verifier=config.verifier.name,
        data=data,
        **labels,
    )


def _task(row: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """Return prompt or messages and response from their columns, and an answer that has no column."""
    response = _text(row, columns.response, "response") if columns.response else None
    if columns.messages is None:
        return {**_prompt(row, columns.prompt), "response": response}
    found = read_conversation(_value(row, columns.messages, "messages"), columns.messages, row.get("tools"))
    task: dict[str, Any] = {"response": found.response if response is None else response}
    if found.prompt is not None:
        task["prompt"] = found.prompt
    else:
        task["messages"] = found.messages
    if found.learn is not None:
        task["extras"] = {"learn": found.learn}
    if task["response"] is not None and columns.answer not in row and "." not in columns.answer:
        task["answer"] = extract_answer(task["response"]) or task["response"]
    return task


def _value(row: Mapping[str, Any], column: str, role: str) -> Any:
    if column in row:
        return row[column]
    value: Any = row
    for key in column.split("."):
        if not isinstance(value, Mapping) or key not in value:
            raise InputError(f"no column {column!r}; {_advice(row, column, role)}")
        value = value[key]
    return value


def _advice(row: Mapping[str, Any], column: str, role: str) -> str:
    """Return what to write where a row lacks a column."""
    if role == "prompt" and (chat := next((name for name in CONVERSATIONS if isinstance(row.get(name), list)), None)):
        return f"{chat!r} holds conversations: write columns: {{messages: {chat}}}"
    return f"set columns.{role}{did_you_mean(column, map(str, row))}"


def _text(row: Mapping[str, Any], column: str, role: str) -> str:
    return checked_text(_value(row, column, role), column, role)


def further_data(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the columns that a verifier or reward asks for, by the last part of their names."""
    return {name.rpartition(".")[2]: json_value(_value(row, name, "data"), name) for name in names}


def _prompt(row: Mapping[str, Any], column: str) -> dict[str, Any]:
    """Return a prompt, or the messages of one with a system message or earlier turns."""
    value = _value(row, column, "prompt")
    if not isinstance(value, list):
        return {"prompt": checked_text(value, column, "prompt")}
    if len(value) == 1:
        return {"prompt": user_text(value, column)}
    found = read_conversation(value, column)
    if found.response is not None:
        raise InputError(
            f"column {column!r} ends with the assistant: write columns: {{messages: {column}}} to take that as response"
        )
    return {"prompt": found.prompt} if found.prompt is not None else {"messages": found.messages}


def user_text(messages: Any, column: str) -> str:
    """Return what the user says in a column's chat messages. Raises InputError unless one of them is the user's."""
    given = messages if isinstance(messages, list) else []
    users = [message for message in given if isinstance(message, Mapping) and message.get("role") == "user"]
    if len(users) != 1:
        raise InputError(f"column {column!r}: expected chat messages with one of the user, found {len(users)}")
    return _text(users[0], "content", "prompt")


def open_files(files: list[Path], config: FileConfig, origin: Mapping[str, Any]) -> SourceRows:
    """Open local files as one source with their digest in its origin; raise InputError when another is pinned."""
    digest = files_digest(files)
    if config.sha256 not in (None, digest):
        raise InputError(f"{config.path}: its sha256 is {digest}, and the recipe pins {config.sha256}")
    rows = (row for path in files for row in read_table(path))
    return config.opened(rows, {**origin, "sha256": digest, "num_files": len(files)})


def files_digest(files: list[Path]) -> str:
    """Return the sha256 of one file, or of the digests of several in their order."""
    digests = [hash_file(path) for path in files]
    return digests[0] if len(digests) == 1 else hash_parts(*digests)
