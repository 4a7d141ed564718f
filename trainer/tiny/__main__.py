"""`python -m trainer.tiny FOLDER`: make the tiny base and its composer from a seed (the shipped ones took the defaults)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.progress import Progress

from agents.model_folder import model_folder
from agents.transformers_engine.backbone import load_backbone
from trainer.composers.shipped import composer_key, ship_composer
from trainer.tiny.pretrain import Recipe, pretrain
from trainer.tiny.tokenizer import TEMPLATE
from trainer.tiny.warm_composer import WarmUp, warm_composer

DEFAULT = Recipe()
SMOOTHING = 50


def build(
    folder: Annotated[Path, typer.Argument(help="Where the model goes; created if absent.")],
    composer: Annotated[Path | None, typer.Option(help="Also warm up a composer for it, into this file.")] = None,
    base: Annotated[bool, typer.Option("--base/--no-base", help="Leave a finished base in FOLDER as it is.")] = True,
    seed: Annotated[int, typer.Option(help="Seed of weights and corpus.")] = DEFAULT.seed,
    threads: Annotated[int, typer.Option(help="Threads of torch; weights repeat bit for bit at the same number.")] = 1,
) -> None:
    """Train the tiny base from scratch, and warm up its composer."""
    torch.set_num_threads(threads)
    folder.mkdir(parents=True, exist_ok=True)
    if base:
        shutil.copy(model_folder("tiny") / TEMPLATE, folder)
        recipe = Recipe(seed=seed)
        with showing("pre-training", recipe.steps) as on_step:
            pretrain(folder, recipe, on_step)
    if composer is not None:
        plan = WarmUp(seed=seed)
        with showing("composer", plan.steps) as on_step:
            weights = warm_composer(folder, plan, on_step)
        ship_composer(composer, composer_key(load_backbone(folder), plan.config.composer), weights)


@contextmanager
def showing(title: str, steps: int) -> Iterator[Callable[[int, float], None]]:
    """A progress bar with the loss smoothed over about fifty steps."""
    with Progress() as progress:
        bar = progress.add_task(title, total=steps)
        smooth: float | None = None

        def on_step(step: int, loss: float) -> None:
            nonlocal smooth
            smooth = loss if smooth is None else smooth + (loss - smooth) / SMOOTHING
            progress.update(bar, completed=step + 1, description=f"{title} loss {smooth:.3f}")

        yield on_step


if __name__ == "__main__":
    typer.run(build)
