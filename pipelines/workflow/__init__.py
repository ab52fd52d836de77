"""One run or sweep: the DAG of its stages, the session it runs in, and its plan.

What a command calls, in order:

    commands/run.py       checks.check_request, session.open_session, running.run_and_register: one recipe; where all
                          classes are known, refit.choose_and_refit, which chooses before it; a dry run ends with
                          plan/printing.print_plans
    commands/sweep.py     sweeping.sweep: spaces on several class splits
    both                  session.execute: dag.py (Hamilton), whose nodes are in stages/
    commands/promote.py   promotion.promote; best_of registers a sweep's best trial first
    commands/job.py       offline_jobs: what a machine without Ray trains, and its way back (of a
                          reproduction: reproduction/offline_studies.py)
"""
