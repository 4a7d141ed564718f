"""From trained weights to a checkpoint row: the gate's report, the probe, the folder.

Every part can be repeated: the gate's report is kept in the round's folder, the folder's name follows
from its content, and the row is written in the transaction that ends the round.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents.adapter import AdapterRef, Probe
from agents.engine import GenerateRequest, Sampling
from agents.environment import Environment
from bank.checkpoint import BASE, Checkpoint, CheckpointStatus
from bank.episode import Split
from bank.gate_report import GateReport
from bank.ledger.errors import NotFound
from bank.round import Round
from trainer.durable import replace_file
from trainer.gate.evaluate import Bench, judge
from trainer.lease import Lease, utc_now
from trainer.publish import Candidate, Lineage, publish
from trainer.pupil import Pupil
from trainer.rollouts import Version
from trainer.settings import Promote
from trainer.student import student_config, student_digest, student_weights
from trainer.workshop import Workshop

GATE = "gate.json"
PROBE_TOKENS = 32
CHECK_SECONDS = 1.0
"""Between two looks at the lease while the gate is at work."""


def judge_candidate(shop: Workshop, pupil: Pupil, lease: Lease) -> GateReport:
    """Candidate against incumbent on the held-out tasks; asked again, the answer is read from the round's folder.

    Raises as `Lease.check`, which is asked every second meanwhile.
    """
    claimed = lease.round
    path = shop.folder(claimed.id) / GATE
    candidate = candidate_version(pupil, claimed.id)
    known = _read_report(path, candidate.digest)
    if known is not None:
        return known
    pupil.adopt(candidate)
    bench = Bench(
        engine=pupil.engine,
        environment=shop.environment,
        config=pupil.config.gate,
        limits=pupil.config.limits,
        threshold=shop.settings.success_threshold,
        parallel=pupil.config.parallel,
    )
    incumbent = pupil.load(incumbent_of(shop, claimed.parent))
    report = pupil.wait(_while_held(lease, judge(bench, candidate, incumbent)))
    wire = json.dumps({"digest": candidate.digest, "report": report.to_wire()})
    replace_file(path, lambda temporary: temporary.write_text(wire))
    return report


async def _while_held(lease: Lease, judging: Coroutine[Any, Any, GateReport]) -> GateReport:
    """The report, unless the lease says that nobody wants it any more."""
    work = asyncio.ensure_future(judging)
    try:
        while not (await asyncio.wait({work}, timeout=CHECK_SECONDS))[0]:
            await asyncio.to_thread(lease.check)
        return work.result()
    finally:
        work.cancel()
        await asyncio.wait({work})


def publish_candidate(shop: Workshop, pupil: Pupil, lease: Lease) -> AdapterRef:
    """The immutable folder of the student's present weights. Raises `StaleFence` when the round is another worker's."""
    claimed = lease.round
    lineage = Lineage(
        round_id=claimed.id,
        parent=claimed.parent,
        base_digest=pupil.backbone.base_digest,
        template_digest=pupil.backbone.template_digest,
        method=pupil.config.method,
        seed=pupil.config.seed,
    )
    model = pupil.backbone.model
    probe = make_probe(pupil, shop.environment, claimed.id)
    candidate = Candidate(lineage, student_weights(model), student_config(model), probe)
    return publish(shop.adapters, candidate, lease.renew)


def make_probe(pupil: Pupil, environment: Environment, round_id: str) -> Probe:
    """The candidate's greedy answer to the first train task, scored by itself and by the base."""
    task = environment.tasks(Split.TRAIN)[0]
    session = environment.reset(task)
    version = candidate_version(pupil, round_id)
    pupil.adopt(version)
    sampling = Sampling(temperature=0.0, max_tokens=PROBE_TOKENS)
    request = GenerateRequest(version.name, tuple(session.opening), tuple(session.tools), sampling)
    answer = pupil.wait(pupil.engine.generate(request))
    base = pupil.wait(pupil.engine.score(BASE, answer.prompt_ids, answer.sampled_ids))
    return Probe(
        task_id=task.id,
        prompt_ids=answer.prompt_ids,
        sampled_ids=answer.sampled_ids,
        logprobs=answer.logprobs,
        base_logprobs=tuple(base),
    )


def candidate_version(pupil: Pupil, round_id: str) -> Version:
    """How the engine names the candidate before it has its final name."""
    return Version(f"{round_id}-candidate", student_digest(pupil.backbone.model))


def judged_checkpoint(
    shop: Workshop, pupil: Pupil, lease: Lease, lineage: dict[str, Any], report: GateReport
) -> Checkpoint:
    """The row of a candidate that the gate has judged; its folder is in place."""
    ref = publish_candidate(shop, pupil, lease)
    return replace(_row(ref, lease.round, pupil, status_of(report, shop.settings.promote), lineage), gate=report)


def status_of(report: GateReport, promote: Promote) -> CheckpointStatus:
    """Approved only by a better verdict with nothing against it, and only where nobody wants to decide by hand."""
    approved = report.passed and promote is Promote.AUTO
    return CheckpointStatus.APPROVED if approved else CheckpointStatus.CANDIDATE


def rejected_checkpoint(shop: Workshop, pupil: Pupil, lease: Lease, lineage: dict[str, Any], reason: str) -> Checkpoint:
    """The row of the last finite weights of a round that went wrong: kept for study, never promoted."""
    ref = publish_candidate(shop, pupil, lease)
    return replace(_row(ref, lease.round, pupil, CheckpointStatus.REJECTED, lineage), reason=reason)


def incumbent_of(shop: Workshop, parent: str) -> AdapterRef | None:
    """The adapter that the candidate is compared with; None for the base. Raises `NotFound`."""
    if parent == BASE:
        return None
    with shop.ledger.read() as books:
        row = books.checkpoints.get(parent)
    if row is None:
        raise NotFound(f"there is no checkpoint {parent}")
    return AdapterRef(row.name, row.digest, Path(row.path))


def _row(
    ref: AdapterRef, claimed: Round, pupil: Pupil, status: CheckpointStatus, lineage: dict[str, Any]
) -> Checkpoint:
    return Checkpoint(
        name=ref.name,
        digest=ref.digest,
        path=str(ref.path),
        status=status,
        created_at=utc_now(),
        round_id=claimed.id,
        parent=claimed.parent,
        lineage={
            "base_digest": pupil.backbone.base_digest,
            "config": pupil.config.model_dump(mode="json"),
            **lineage,
        },
    )


def _read_report(path: Path, digest: str) -> GateReport | None:
    """The report on exactly these weights, if it was made before."""
    if not path.exists():
        return None
    wire = json.loads(path.read_text())
    return GateReport.from_wire(wire["report"]) if wire["digest"] == digest else None
