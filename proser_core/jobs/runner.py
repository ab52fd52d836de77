"""All trainings of a JOB.json in this one process, one after the other, into a storage of their own.

The folders and their keys are those of the pipeline, so that `proser import` only has to copy them.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from proser_core.baselines import METHODS, Method
from proser_core.baselines.controls import closed_set_scores, fit_score, placeholder_scores
from proser_core.data.data_sets import listed_once
from proser_core.data.preparation import split_of
from proser_core.data.tasks import OpenSetTask, TaskSummary
from proser_core.errors import ProserError, TrainingError
from proser_core.jobs import spec
from proser_core.jobs.any_job import train_alone
from proser_core.jobs.checkpoint_score import epochs_in_checkpoint
from proser_core.jobs.embedding import embed_task
from proser_core.jobs.job_file import JobFile, check_finetunes
from proser_core.jobs.own_networks.methods import plan_methods
from proser_core.jobs.own_networks.plans import OwnPlan
from proser_core.jobs.own_networks.spec import OWN
from proser_core.jobs.preparing import prepare_inputs, prepare_task
from proser_core.jobs.progress import EpochProgress
from proser_core.jobs.starting_point import delete_changed_checkpoint
from proser_core.jobs.task_checks import check_batches, check_machine, check_prepared_for, refuse_among_images
from proser_core.jobs.trials import Trial, plan_pretraining, plan_trials
from proser_core.networks.pretrained import with_features
from proser_core.processor import resolve_precision
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.logit_tables import load_logits
from proser_core.recognition.scores import ScoreFunction, own_score
from proser_core.store.files import write_json
from proser_core.store.lock import absent_folders, exclusive_storage
from proser_core.store.store import Artefact, Store, check_artefact, import_artefact, load_if_complete
from proser_core.titles import PRETRAINED

JOB_FILE, RESULTS = "JOB.json", "results.json"


@dataclass
class Outcome:
    """What a run gives: metrics as in results.json, how many trainings ran, and the failed ones' reasons."""

    results: dict[str, Any]
    trained: int = 0
    failures: dict[str, str] = field(default_factory=dict)


def run(job: JobFile, out: Path, progress: EpochProgress) -> Outcome:
    """Pretrain, fine-tune and evaluate what is not there yet; JOB.json and results.json lie in `out`.

    A fine-tune that fails does not stop the others. Raises ConfigError before any training for what cannot
    work here, TrainingError where the pretraining fails, StorageError where the disk is full.
    """
    recipe = job.recipe
    check_machine(recipe)
    refuse_among_images(recipe.data, job.data_dir, {"OUT": out})
    made, store = absent_folders(out), Store(out, option="OUT")
    with exclusive_storage(store.root, f"python -m proser_core.job, {recipe.name}", made):
        prepared = _prepared(job, store)
        count = TaskSummary.read(prepared.path).counts["train"]
        decided, finetunes = with_features(recipe, count), job.finetunes
        if decided.finetune != recipe.finetune:  # a lower rate, of all points alike
            finetunes = tuple(with_features(replace(recipe, finetune=each), count).finetune for each in finetunes)
        recipe = decided
        job = replace(job, recipe=recipe, finetunes=finetunes)
        check_finetunes(recipe, job.finetunes)
        check_batches(recipe, job.finetunes, prepared.path)
        job.save(store.root / JOB_FILE)
        about = {"recipe": recipe.name, "bf16": resolve_precision(recipe), "task": prepared.path.name, "trainings": {}}
        runner = _Runner(job, store, prepared, OpenSetTask.load(prepared.path), progress, Outcome(about))
        runner.run()
    return runner.outcome


def _prepared(job: JobFile, store: Store) -> Artefact:
    if job.task is not None:
        inputs = check_artefact(job.task).inputs
        check_prepared_for(job.recipe, inputs, job.code.prepare, job.task)
        return import_artefact(job.task, spec.PREPARE, store)
    data_dir = listed_once(job.data_dir)
    split_of(job.recipe.data, data_dir)  # refuses images that do not fit
    inputs = prepare_inputs(job.recipe, data_dir)
    return prepare_task(job.recipe, inputs, data_dir, store, job.code.prepare)


@dataclass(frozen=True)
class _Runner:
    """The trainings of a job on its prepared task, one after the other."""

    job: JobFile
    store: Store
    prepared: Artefact
    task: OpenSetTask
    progress: EpochProgress
    outcome: Outcome

    def run(self) -> None:
        job = self.job
        if job.recipe.network.is_frozen("pretrain"):
            embed_task(job.recipe, self.prepared, self.store, self.progress.images)
        self.progress.expect("finetune", job.finetune_epochs)
        pretrained = self._pretrained()
        self._evaluate(PRETRAINED, pretrained.path, None)
        trials = plan_trials(job.recipe, job.finetunes, self.prepared, pretrained, self.store, job.code.train)
        waiting = [trial for trial in trials if load_if_complete(trial.folder) is None]
        self.progress.expect("finetune", sum(trial.recipe.finetune.epochs for trial in waiting))
        for number, trial in enumerate(trials, start=1):
            if trial in waiting:
                name = f"[{number}/{len(trials)}] {trial.name}"
                self._train(trial.job(self.prepared, pretrained), name, trial.recipe.finetune.epochs)
            self._score(trial)
        self._own_networks()

    def _own_networks(self) -> None:
        """Networks of methods' own, a part before what needs it, each followed by the methods that score it."""
        job, asked = self.job, self.job.own_methods
        for plan in plan_methods(asked, job.recipe, self.prepared, self.store, job.code.own):
            name = plan.network.name
            if plan.outcome() is None and not plan.failure_of_part():
                self.progress.expect(OWN, plan.epochs)
                self._train(plan.job(), name, plan.epochs)
            if plan.outcome() is None:
                self.outcome.failures[name] = plan.failure()
                self._add(name, plan.folder, {}, plan.failure())
            elif plan.network in asked.networks:
                self._evaluate_own(plan, [METHODS[each] for each in asked.names if METHODS[each].network == name])

    def _evaluate_own(self, plan: OwnPlan, methods: Sequence[Method]) -> None:
        """The methods that score a network; where a score cannot be fitted to it, the training counts as failed."""
        name, logits, targets = plan.network.name, load_logits(plan.folder / spec.LOGITS), self.task.train.targets
        try:
            scores = {each.name: fit_score(each, logits, targets) for each in methods}
        except ProserError as error:
            self.outcome.failures[name] = str(error)
            self._add(name, plan.folder, {}, str(error))
        else:
            self._evaluate(name, plan.folder, scores)

    def _pretrained(self) -> Artefact:
        job, root = self.job, self.store.root
        plan = plan_pretraining(job.recipe, self.prepared, root, code=job.code.train)
        if load_if_complete(plan.folder) is None:
            self.progress.expect("pretrain", plan.epochs)
            self._train(plan.job(), "pretraining", plan.epochs)
        found = load_if_complete(plan.folder)
        if found is None:
            raise TrainingError(f"pretraining: {next(iter(self.outcome.failures.values()), 'its outcome was changed')}")
        return found

    def _train(self, training: spec.Job, name: str, epochs: int) -> None:
        folder = Path(training.folder)
        note = " again, because its checkpoint was changed" if delete_changed_checkpoint(folder) else ""
        self.progress.begin(f"{name}{note}", training.kind, epochs, epochs_in_checkpoint(folder))
        with closing(self.progress):
            reason = train_alone(training, self.progress.epoch)
        if reason:
            self.outcome.failures[name] = reason
        else:
            self.outcome.trained += 1

    def _score(self, trial: Trial) -> None:
        if load_if_complete(trial.folder) is None:
            self._add(trial.name, trial.folder, {}, spec.read_failure(trial.folder) or "unfinished")
        else:
            own = None if trial.is_control else placeholder_scores(own_score(trial.recipe))
            self._evaluate(trial.name, trial.folder, own)

    def _evaluate(self, name: str, folder: Path, scores: Mapping[str, ScoreFunction] | None) -> None:
        """Metrics of a trained net by method; one that cannot be calibrated makes the training a failed one.

        Without `scores`, all scores of a net without placeholders.
        """
        logits = load_logits(folder / spec.LOGITS)
        if scores is None:
            scores = {score.name: score for score in closed_set_scores(logits, self.task.train.targets)}
        methods: dict[str, dict[str, float]] = {}
        reasons = []
        for method, score_function in scores.items():
            try:
                target_rate = self.job.recipe.calibration.target_rate
                methods[method] = evaluate(logits, score_function, self.task, target_rate).flat()
            except ProserError as error:
                reasons.append(f"{method}: {error}")
        if reasons:
            self.outcome.failures[name] = "; ".join(reasons)
        self._add(name, folder, methods, "; ".join(reasons))

    def _add(self, name: str, folder: Path, methods: dict[str, dict[str, float]], failure: str) -> None:
        """One more training in results.json, so that a long run can be looked at."""
        entry = {"folder": folder.relative_to(self.store.root).as_posix(), "failure": failure, "methods": methods}
        self.outcome.results["trainings"][name] = entry
        write_json(self.store.root / RESULTS, self.outcome.results)
