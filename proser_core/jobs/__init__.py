"""Trainings as data, the worker that runs them, and the folders of finished work that they write.

    preparing           a recipe's task, an artefact
    trials              the fine-tunes of a recipe, with names and keys
    spec                one training as data: `Job`
    own_networks        the same for networks of a method's own (OSRCI, CROSR, ...): `OwnJob`
    any_job.run_any     runs either: `worker.run_job`, or `own_networks.worker.train_files`
    network_tables      logits and embeddings of a finished training
    selection           which point of a sweep is selected

`run_any` is called from two places, with equal bits: by `pipelines.cluster` on Ray, and by `any_job.train_alone`,
without Ray, for heads of a frozen backbone and for `runner`, which runs a JOB.json (`job_folder`: a folder of them).
`in_memory` trains without files, for `proser_core.train`. The probes measure what a step, an epoch or an evaluation
costs.
"""
