"""One round: snapshot, cold start or resumed composer, steps, gate, publish (system.md, life of one improvement).

A round may die anywhere and be claimed again. What it goes on from: the snapshot's ids in its row, the state after the
last completed step and the gate's report in its folder. What it then does is what it would have done: every draw has
its own seed. Each write names the fence of its claim, so a worker that lost its round can't write into it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import structlog

from agents.model_folder import weights_digest
from bank.checkpoint import BASE
from bank.episode import Episode
from bank.ledger.errors import StaleFence
from bank.relay import relay
from bank.round import Round, RoundStatus
from bank.snapshot import Snapshot, freeze
from trainer.conclude import incumbent_of, judge_candidate, judged_checkpoint, rejected_checkpoint
from trainer.durable import replace_file
from trainer.errors import NonFinite
from trainer.lease import Lease, RoundCancelled, WorkerStopping
from trainer.logged import again, served_by
from trainer.memory import out_of_memory
from trainer.plot import plot_round
from trainer.pupil import Pupil
from trainer.references import Library, lived, sufficient
from trainer.resume import forget_progress
from trainer.round_config import RoundConfig
from trainer.training import NothingLived, Training
from trainer.workshop import Workshop

PICTURE = "round.png"
LOGGED = "logged"
"""Ids of the served episodes that a round may learn from, in its snapshot and its candidate's lineage."""

log = structlog.get_logger(__name__)


def run_round(shop: Workshop, claimed: Round) -> None:
    """A claimed round to its end, or to where somebody stops it. Raises what made it fail, after recording it."""
    log.info("round claimed", round=claimed.id, attempt=claimed.attempts, phase=claimed.phase)
    with Lease(shop.ledger, claimed, shop.settings.lease_seconds, shop.stopping) as lease:
        try:
            _attempt(shop, lease)
        except RoundCancelled:
            lease.finish(RoundStatus.CANCELLED)
        except NothingLived as error:
            lease.finish(RoundStatus.EMPTY, error=str(error))
        except WorkerStopping:
            lease.release()
            log.info("round left for the next worker", round=claimed.id)
        except StaleFence as error:
            log.warning("round lost to another worker", round=claimed.id, error=str(error))
        except Exception as error:
            if out_of_memory(error):
                _ran_out(shop, lease, error)
                return
            # The one broad except of this process: whatever it is, the round must not stay "running".
            lease.finish(RoundStatus.FAILED, error=f"{type(error).__name__}: {error}")
            raise
        finally:
            shop.reporter.close()


def _ran_out(shop: Workshop, lease: Lease, error: Exception) -> None:
    """Another attempt may find more memory; how many there are is the ledger's business."""
    log.error("round ran out of memory", round=lease.round.id, attempt=lease.round.attempts, error=str(error))
    pause = shop.settings.retry_seconds * 2 ** (lease.round.attempts - 1)
    lease.fail_attempt(f"out of memory: {type(error).__name__}", pause)


def _attempt(shop: Workshop, lease: Lease) -> None:
    config = shop.settings.round_config(lease.round.config)
    lease.check()
    snapshot = _snapshot(shop, lease, config)
    if config.references and not sufficient(shop.ledger, snapshot, config.min_experiences, config.references):
        lease.finish(RoundStatus.EMPTY, error=f"{len(snapshot)} experiences are too few")
        return
    logged = again(shop.ledger, lease.round.snapshot.get(LOGGED, ()))
    if config.trajectories.source == "logged" and not logged:
        lease.finish(RoundStatus.EMPTY, error=f"{lease.round.parent} has served no judged episode")
        return
    examples = lived(shop.ledger, snapshot, shop.environment.name)
    library = Library(snapshot, shop.embedder, config.references, examples)
    with Pupil(shop, config, library) as pupil:
        training = Training(shop, lease, pupil, examples, logged)
        try:
            training.run()
        except NonFinite as error:
            _fail(shop, lease, pupil, training, error)
        else:
            _conclude(shop, lease, pupil, training)


def _snapshot(shop: Workshop, lease: Lease, config: RoundConfig) -> Snapshot:
    """The bank and the incumbent as they were when the round was first claimed."""
    if lease.round.snapshot:
        with shop.open_index() as index:
            return freeze(shop.ledger, index, lease.round.snapshot["ids"])
    with shop.open_index() as index:
        while relay(shop.ledger, index, shop.embedder):
            lease.check()
        snapshot = freeze(shop.ledger, index)
    with shop.ledger.read() as books:
        pointer = books.deployments.current()
    parent = BASE if pointer is None else pointer.current
    recorded = {"ids": list(snapshot.ids), "digest": snapshot.digest}
    if config.trajectories.source != "suite":
        recorded[LOGGED] = [episode.id for episode in _served(shop, parent)]
    lease.record(phase="snapshot", snapshot=recorded, parent=parent)
    lease.round = replace(lease.round, snapshot=recorded, parent=parent)
    return snapshot


def _served(shop: Workshop, parent: str) -> list[Episode]:
    """What the version that the round starts from has served, as the ledger knows it now."""
    incumbent = incumbent_of(shop, parent)
    digest = weights_digest(shop.model) if incumbent is None else incumbent.digest
    return served_by(shop.ledger, parent, digest, shop.environment.name)


def _conclude(shop: Workshop, lease: Lease, pupil: Pupil, training: Training) -> None:
    lease.record(phase="gate")
    shop.reporter.phase(lease.round.id, "gate")
    report = judge_candidate(shop, pupil, lease)
    shop.reporter.verdict(report)
    # The last chance to cancel: from here on there is a folder.
    lease.check()
    lease.record(phase="publish")
    _draw(shop, lease, pupil)
    checkpoint = judged_checkpoint(shop, pupil, lease, _lineage(shop, lease, pupil.config), report)
    training.keep_composer()
    lease.finish(RoundStatus.COMPLETED, checkpoint=checkpoint)
    forget_progress(shop.folder(lease.round.id))
    log.info("round completed", round=lease.round.id, candidate=checkpoint.name, status=checkpoint.status.value)


def _fail(shop: Workshop, lease: Lease, pupil: Pupil, training: Training, error: NonFinite) -> None:
    """Keep the last finite weights as a rejected candidate; the composer is not handed on."""
    reason = f"{type(error).__name__}: {error}"
    log.error("round is not finite", round=lease.round.id, error=str(error))
    checkpoint = None
    if training.back_to_finite():
        checkpoint = rejected_checkpoint(shop, pupil, lease, _lineage(shop, lease, pupil.config), reason)
    _draw(shop, lease, pupil)
    lease.finish(RoundStatus.FAILED, checkpoint=checkpoint, error=reason)


def _lineage(shop: Workshop, lease: Lease, config: RoundConfig) -> dict[str, Any]:
    with shop.ledger.read() as books:
        steps = books.rounds.steps(lease.round.id)
    rollouts = steps[-1].rollouts if steps else 0
    snapshot = lease.round.snapshot
    return {
        "experiences": snapshot["ids"],
        "snapshot": snapshot["digest"],
        "rollouts": rollouts,
        "steps": len(steps),
        "method": config.method,
        "trajectories": {"source": config.trajectories.source, LOGGED: snapshot.get(LOGGED, [])},
    }


def _draw(shop: Workshop, lease: Lease, pupil: Pupil) -> None:
    with shop.ledger.read() as books:
        steps = books.rounds.steps(lease.round.id)
    title = f"{lease.round.id}, student from {lease.round.parent}"
    picture = plot_round(steps, title, pupil.config.lopd.threshold)
    replace_file(shop.folder(lease.round.id) / PICTURE, lambda path: path.write_bytes(picture))
