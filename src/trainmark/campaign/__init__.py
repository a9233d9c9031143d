"""The main job: turn a suite's cases into runs, stored results, and one results document.

Names are loaded at first use, so that `trainmark plan` does not import the libraries that only a run needs.
"""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.campaign.campaign import CampaignEnding, Order, explain_full_disk, run_campaign
    from trainmark.campaign.certifying import certify_environments
    from trainmark.campaign.data_sets import DataSets
    from trainmark.campaign.directories import result_folders, results_of
    from trainmark.campaign.planning import FirstPlans, plan_campaign
    from trainmark.campaign.quiet import QuietWait
    from trainmark.campaign.reserving import reserve_hosts
    from trainmark.campaign.resume import (
        as_attempts,
        campaign_results,
        collect_results,
        results_of_runs,
        stored_results,
    )
    from trainmark.campaign.run_environment import (
        CannotStart,
        RunEnvironment,
        load_programs,
        program_mistakes,
    )
    from trainmark.campaign.schedule import Attempt, Progress, wants_another
    from trainmark.campaign.time_limits import cases_over_limit
    from trainmark.campaign.timed_steps import can_be_timed, time_steps

__all__ = [
    "Attempt",
    "CampaignEnding",
    "CannotStart",
    "DataSets",
    "FirstPlans",
    "Order",
    "Progress",
    "QuietWait",
    "RunEnvironment",
    "as_attempts",
    "campaign_results",
    "can_be_timed",
    "cases_over_limit",
    "certify_environments",
    "collect_results",
    "explain_full_disk",
    "load_programs",
    "plan_campaign",
    "program_mistakes",
    "reserve_hosts",
    "result_folders",
    "results_of",
    "results_of_runs",
    "run_campaign",
    "stored_results",
    "time_steps",
    "wants_another",
]

__getattr__ = attach(
    __name__,
    {
        ".campaign": ("CampaignEnding", "Order", "explain_full_disk", "run_campaign"),
        ".certifying": ("certify_environments",),
        ".data_sets": ("DataSets",),
        ".directories": ("result_folders", "results_of"),
        ".planning": ("FirstPlans", "plan_campaign"),
        ".quiet": ("QuietWait",),
        ".reserving": ("reserve_hosts",),
        ".resume": (
            "as_attempts",
            "campaign_results",
            "collect_results",
            "results_of_runs",
            "stored_results",
        ),
        ".run_environment": ("CannotStart", "RunEnvironment", "load_programs", "program_mistakes"),
        ".schedule": ("Attempt", "Progress", "wants_another"),
        ".time_limits": ("cases_over_limit",),
        ".timed_steps": ("can_be_timed", "time_steps"),
    },
)
