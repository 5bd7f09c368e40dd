"""Looks at dashboards and alarms: Grafana's own types read them, and they ask only for figures that exist.

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
# What Prometheus and Kubernetes tell themselves.
OTHERS = {"up", "ALERTS", "kubelet_volume_stats_available_bytes", "kubelet_volume_stats_capacity_bytes"}

problems = []


def exported():
    """Names of what /metrics tells, from the lines that write it."""
    folder = ROOT / "coordinator/src/api/metrics"
    metrics = (folder / "mod.rs").read_text()
    names = re.findall(r'gauge\(\s*"([a-z_]+)",', metrics)
    names += re.findall(r'"(?:gauge|counter)",\s*"([a-z_]+)",', (folder / "load.rs").read_text())
    embeddings = metrics[metrics.index("fn embeddings") : metrics.index("fn render")]
    names += [f"memory_embeddings_{name}" for name in re.findall(r'\(\s*"([a-z]+)",', embeddings)]
    return {f"ralph_{name}" for name in names}


def selectors(node):
    """Every name that an expression selects."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node.name
    for part in ("lhs", "rhs", "expr", "param", "vector_selector", "args"):
        inner = getattr(node, part, None)
        for one in inner if isinstance(inner, list) else [inner]:
            if one is not None and hasattr(one, "prettify"):
                yield from selectors(one)


def look_at(where, expression, known):
    try:
        named = set(selectors(promql_parser.parse(expression)))
    except ValueError as error:
        problems.append(f"{where}: {expression}: {error}")
        return set()
    for name in named - known:
        problems.append(f"{where}: nobody tells {name}")
    return named


known = exported()
if len(known) < 20:
    sys.exit(f"figures.py: found only {sorted(known)} in coordinator/src/api/metrics; has it moved?")
asked, queries, panels = set(), [], 0
for group in yaml.safe_load((OBSERVABILITY / "rules.yml").read_text())["groups"]:
    for rule in group["rules"]:
        asked |= look_at(rule["alert"], rule["expr"], known | OTHERS)

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
                asked |= look_at(where, target["expr"], known | OTHERS)
            else:
                queries.append(target["query"])

pathlib.Path(sys.argv[1]).write_text("".join(f"{query}\n" for query in queries))
for problem in problems:
    print(f"figures.py: {problem}", file=sys.stderr)
if not problems:
    print(f"{len(uids)} dashboards with {panels} panels; {len(asked & known)} of {len(known)} figures are asked for, none that isn't told")
sys.exit(bool(problems))
