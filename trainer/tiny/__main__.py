"""`python -m trainer.tiny FOLDER`: make the tiny base from its seed (the shipped one took the default recipe)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.progress import Progress

from agents.model_folder import model_folder
from trainer.tiny.pretrain import Recipe, pretrain
from trainer.tiny.tokenizer import TEMPLATE

DEFAULT = Recipe()


def build(
    folder: Annotated[Path, typer.Argument(help="Where the model goes; created if absent.")],
    seed: Annotated[int, typer.Option(help="Seed of weights and corpus.")] = DEFAULT.seed,
    batch: Annotated[int, typer.Option(help="Conversations per step.")] = DEFAULT.batch,
    threads: Annotated[int, typer.Option(help="Threads of torch; weights repeat bit for bit at the same number.")] = 1,
) -> None:
    """Train the tiny base from scratch."""
    torch.set_num_threads(threads)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(model_folder("tiny") / TEMPLATE, folder)
    recipe = Recipe(seed=seed, batch=batch)
    with Progress() as progress:
        bar = progress.add_task("pre-training", total=recipe.steps)
        pretrain(
            folder,
            recipe,
            lambda _, loss: progress.update(bar, advance=1, description=f"loss {loss:.3f}"),
        )


if __name__ == "__main__":
    typer.run(build)
