"""dayzero stack: other versions of libraries, for models that the installed ones do not know."""

from typing import Annotated

import typer

from dayzero import app as composition
from dayzero.cli.arguments import Json
from dayzero.cli.output import print_document, print_line, print_table
from dayzero.domain.canonical import plain
from dayzero.settings import load_settings

app = typer.Typer(help="Stacks: versions of libraries that verification runs in.", no_args_is_help=True)

Platform = Annotated[str, typer.Option(help="The platform whose stacks are meant.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="What the stack is called; its lock is NAME.txt.")]


@app.command()
def add(
    name: Name,
    requirements: Annotated[list[str], typer.Argument(metavar="REQUIREMENT…", help="As pip takes them: transformers==5.20.0")],
    platform: Annotated[str | None, typer.Option(help="For this platform alone; else for every one.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of a stack of that name.")] = False,
    json: Json = False,
) -> None:
    """Lock what the requirements need beside what is installed; releases that nothing before it knows are tried with it."""
    recipe, path = composition.add_stack(load_settings(), name, requirements, platform, replace=replace)
    if json:
        document = {"schema": "dayzero.stack/1", "name": recipe.name, "lock": str(path), "fingerprint": recipe.fingerprint}
        print_document({**document, "pins": plain(recipe.pins)})
    else:
        print_line(f"{path} pins {', '.join(map(str, recipe.pins))}")


@app.command(name="ls")
def listed(
    platform: Platform = "cpu",
    knows: Annotated[str | None, typer.Option(metavar="MODEL_TYPE", help="Ask each whether it knows this type.")] = None,
    json: Json = False,
) -> None:
    """The stacks of a platform, in the order in which a release tries them."""
    found = composition.list_stacks(load_settings(), platform, knows)
    rows = [
        {
            "stack": one.recipe.name,
            "library": one.library,
            **({f"knows {knows}": one.knows} if knows else {}),
            "model_types": one.types,
            "pins": ", ".join(map(str, one.recipe.pins)) or None,
            "installed": one.installed,
        }
        for one in found
    ]
    if json:
        print_document({"schema": "dayzero.stacks/1", "platform": platform, "stacks": plain(found)})
    else:
        print_table(f"Stacks of {platform}, in the order in which a release tries them", rows)


@app.command()
def build(name: Name, platform: Platform = "cpu") -> None:
    """Install a stack now; else that happens when a release first needs it."""
    print_line(f"{name} is installed in {composition.build_stack(load_settings(), name, platform)}")
