"""Looks at dashboards and alarms: Grafana's own types and a parser of PromQL read them. A unit test of /metrics checks that
the figures exist.

figures.py TRACEQL: writes the TraceQL queries that it finds to the file TRACEQL, one a line.
"""

import json
import pathlib
import re
import sys

import promql_parser
import yaml
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

ROOT = pathlib.Path(__file__).parents[2]
OBSERVABILITY = ROOT / "deploy/observability"

problems = []


def look_at(where, expression):
    try:
        promql_parser.parse(expression)
    except ValueError as error:
        problems.append(f"{where}: {expression}: {error}")


queries, panels = [], 0
for group in yaml.safe_load((OBSERVABILITY / "rules.yml").read_text())["groups"]:
    for rule in group["rules"]:
        look_at(rule["alert"], rule["expr"])

register_default_plugins()
uids = {}
for file in sorted((OBSERVABILITY / "grafana/dashboards").glob("*.json")):
    text = json.loads(file.read_text())
    dashboard = Dashboard.from_json(text)
    if uids.setdefault(dashboard.uid, file) != file:
        problems.append(f"{file.name} has the uid of {uids[dashboard.uid].name}")
    # What the types pass over would not come back.
    again = json.loads(json.dumps(dashboard, default=lambda value: value.to_json()))
    for key in text.keys() - again.keys():
        problems.append(f"{file.name}: Grafana knows no {key}")
    variables = {variable["name"] for variable in text["templating"]["list"]}
    for panel in text["panels"]:
        panels += 1
        for used in re.findall(r"\$\{?([a-z]+)", json.dumps(panel)):
            if used not in variables:
                problems.append(f"{file.name}, {panel['title']}: there is no variable {used}")
        for target in panel.get("targets", []):
            where = f"{file.name}, {panel['title']}"
            if "expr" in target:
                look_at(where, target["expr"])
            else:
                queries.append(target["query"])

pathlib.Path(sys.argv[1]).write_text("".join(f"{query}\n" for query in queries))
for problem in problems:
    print(f"figures.py: {problem}", file=sys.stderr)
if not problems:
    print(f"{len(uids)} dashboards with {panels} panels")
sys.exit(bool(problems))
