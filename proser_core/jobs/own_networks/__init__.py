"""Trainings of networks of a method's own (OSRCI, CROSR, ...): what `jobs` does for other trainings, for these.

    spec        `OwnJob`: one training as data
    plans       `OwnPlan`: its key, its folder, and the plans of the networks that it needs
    methods     `OwnMethods`: the methods that a command asks for, and the plans of their networks
    worker      from files to files, as `jobs.worker`; `jobs.any_job` calls either
    in_memory   without files, for `proser_core.train`
    probe       what an epoch costs

Keys hold the code of `worker` and of the module that trains the network.
"""
