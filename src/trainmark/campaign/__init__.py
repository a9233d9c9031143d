"""The main job, put together: a suite's cases become runs, kept results, and a document of them all."""

from trainmark.campaign.disk import full_disk_is_told
from trainmark.campaign.keeping import DATABASE, RESULTS
from trainmark.campaign.run import Audience, Ending, Order, collect_results, run_campaign
from trainmark.campaign.schedule import Standing
from trainmark.campaign.site import CannotStart, plan_campaign

__all__ = [
    "DATABASE",
    "RESULTS",
    "Audience",
    "CannotStart",
    "Ending",
    "Order",
    "Standing",
    "collect_results",
    "full_disk_is_told",
    "plan_campaign",
    "run_campaign",
]
