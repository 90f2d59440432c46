"""`kernelsmith lessons list|show|add|edit|rm`: what earlier runs taught, and a user's own notes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelsmith.commands import options
from kernelsmith.commands.common import print_lines, print_record

if TYPE_CHECKING:
    from kernelsmith.lessons.book import Lesson, Lessons
    from kernelsmith.records import LessonRecord

app = typer.Typer(help="List, show, add, edit and remove what models are told of earlier runs.", no_args_is_help=True)
LessonId = Annotated[str, typer.Argument(metavar="ID", help="Id of a lesson, or an unambiguous beginning of it.")]
Text = Annotated[str, typer.Argument(metavar="TEXT", help="One sentence that a model can act on.")]


@contextmanager
def _book(runs: Path | None, *, create: bool = False) -> Iterator[Lessons]:
    from kernelsmith import config
    from kernelsmith.lessons.book import Lessons
    from kernelsmith.store import Store

    with Store.open(config.load({"runs": runs}).runs, create=create) as store:
        yield Lessons(store)


@app.command("list")
def list_lessons(json: options.Json = False, runs: options.Runs = None, verbose: options.Verbose = False) -> None:
    """All of them, best supported first; those in parentheses are not told to models (yet, or any more)."""
    from kernelsmith.records import LessonList

    with _book(runs) as book:
        known = book.all()
    if json:
        print_record(LessonList(lessons=tuple(map(_record, known))))
    else:
        print_lines([_row(one) for one in known] or ["no lessons yet: runs with a model teach them"])


@app.command()
def show(
    name: LessonId, json: options.Json = False, runs: options.Runs = None, verbose: options.Verbose = False
) -> None:
    """One lesson with its evidence."""
    with _book(runs) as book:
        _print(book.find(name), json=json)


@app.command()
def add(
    text: Text,
    device: Annotated[str, typer.Option("--device", help="A target's name or a torch device type.")] = "cpu",
    category: Annotated[str, typer.Option("--category", help="Of operators, such as rows; by default any.")] = "",
    json: options.Json = False,
    runs: options.Runs = None,
    targets: options.Targets = None,
    verbose: options.Verbose = False,
) -> None:
    """A note of your own for every prompt of this family of devices."""
    from kernelsmith import targets as known

    family = known.resolve(device, targets).triton.backend
    with _book(runs, create=True) as book:
        _print(book.add(family, text, category), json=json)


@app.command()
def edit(
    name: LessonId, text: Text, json: options.Json = False, runs: options.Runs = None, verbose: options.Verbose = False
) -> None:
    """Put it into your words; it is told from then on and never rewritten."""
    with _book(runs) as book:
        _print(book.edit(name, text), json=json)


@app.command("rm")
def remove(
    name: LessonId, json: options.Json = False, runs: options.Runs = None, verbose: options.Verbose = False
) -> None:
    """Models are not told it any more, and it does not come back."""
    with _book(runs) as book:
        _print(book.remove(name), json=json, before="removed: ")


def _row(one: Lesson) -> str:
    where = one.family + (f"/{one.category}" if one.category else "")
    against = f", contradicted by {one.contradicted}" if one.contradicted else ""
    evidence = "yours" if one.edited or one.kind == "note" else f"seen in {one.seen}{against}"
    shown = f"{one.id}  {where}  {one.kind}  {one.words}  [{evidence}]"
    return shown if one.offered else f"({shown})"


def _record(one: Lesson) -> LessonRecord:
    from kernelsmith.records import LessonRecord

    return LessonRecord.model_validate(one.model_dump() | {"offered": one.offered})


def _print(one: Lesson, *, json: bool, before: str = "") -> None:
    if json:
        print_record(_record(one))
    else:
        print_lines([before + _row(one)])
