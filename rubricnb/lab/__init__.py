"""The judge lab: how good a judge is, how foolable, how early, how dear, on your own logs.

Each question is one function that returns a :class:`Section`: tables, figures and a paragraph.

    with_people        a labelling sheet's answers against the judge
    what_recipe        a reward recipe for these rollouts, with reasons
    run_lab, write_lab every section that the labels allow, and its files
    what_it_costs      judge tokens beside the policy's own
    how_good           judges against labels, precision on success first; ranking of agents
    worth_as_reward    quality of judges against what trainings gained
    how_cheap          cascades of judges with an audited risk
    false_successes    claims of success among failures, and a text detector of them
    how_foolable       rewritten reasoning, judge views, reply attacks, defences
    how_early          alarms with a promise, and auditing prefix by prefix
"""

from ..names import looked_up

_WHERE = {
    "Logs": "logs",
    "Section": "section",
    "desk_logs": "desk",
    "LabConfig": "run",
    "desk_lab": "run",
    "export_sheet": "sheet",
    "false_successes": "false_success",
    "how_cheap": "cheaper",
    "how_early": "earlier",
    "how_foolable": "foolable",
    "how_good": "judged",
    "logs_of": "logs",
    "read_logs": "logs",
    "run_lab": "run",
    "save": "section",
    "what_it_costs": "dear",
    "what_recipe": "recipe",
    "with_people": "people",
    "worth_as_reward": "worth",
    "write_lab": "run",
}
__all__ = list(_WHERE)

__getattr__, __dir__ = looked_up(__name__, _WHERE)
