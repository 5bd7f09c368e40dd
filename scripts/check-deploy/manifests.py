"""Looks at rendered manifests, and at what Compose makes of its files, for what no schema knows.

manifests.py kubernetes FILE | compose FILE
"""

import json
import pathlib
import sys

import yaml

# What ending, pushing and reporting may take after a drain. Seconds.
AFTER_DRAIN = 130

problems = []


def expect(holds, words):
    if not holds:
        problems.append(words)


def pod(name, spec, kept):
    security = spec.get("securityContext", {})
    expect(security.get("runAsNonRoot") and security.get("runAsUser"), f"{name} may run as root")
    expect(security.get("seccompProfile") == {"type": "RuntimeDefault"}, f"{name} has no seccomp profile")
    expect(spec.get("automountServiceAccountToken") is False, f"{name} gets a token of the cluster")
    expect(spec.get("enableServiceLinks") is False, f"{name} gets variables of other services")
    volumes = {volume["name"] for volume in spec.get("volumes", [])} | kept
    for container in spec["containers"] + spec.get("initContainers", []):
        where = f"{name}, {container['name']}"
        security = container.get("securityContext", {})
        expect(security.get("readOnlyRootFilesystem"), f"{where}: its file system can be written")
        expect(security.get("allowPrivilegeEscalation") is False, f"{where} may gain privileges")
        expect(security.get("capabilities") == {"drop": ["ALL"]}, f"{where} keeps capabilities")
        resources = container.get("resources", {})
        expect({"cpu", "memory"} <= resources.get("requests", {}).keys(), f"{where} asks for no resources")
        expect("memory" in resources.get("limits", {}), f"{where} has no bound of memory")
        for mount in container.get("volumeMounts", []):
            expect(mount["name"] in volumes, f"{where}: there is no volume {mount['name']}")
        environment = {one["name"]: one.get("value") for one in container.get("env", [])}
        if drain := environment.get("RALPH_DRAIN_SECONDS"):
            grace = spec.get("terminationGracePeriodSeconds", 30)
            expect(grace >= int(drain) + AFTER_DRAIN, f"{name} is killed {grace} s after it is told to drain for {drain} s")


def secrets(node):
    """Every secret and key that something refers to; None is the whole secret."""
    if isinstance(node, list):
        for one in node:
            yield from secrets(one)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "secretKeyRef":
                yield value["name"], value["key"]
            elif key == "secretRef" and not value.get("optional"):
                yield value["name"], None
            elif key == "secret" and isinstance(value, dict) and "secretName" in value:
                yield value["secretName"], None
            else:
                yield from secrets(value)


def kubernetes(text):
    objects = [one for one in yaml.safe_load_all(text) if one]
    named = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    expect(len(named) == len(objects), "two objects have one name")
    for one in objects:
        name = f"{one['kind']}/{one['metadata']['name']}"
        expect(one["kind"] == "Namespace" or one["metadata"].get("namespace") == "ralph", f"{name} is in no namespace")
        spec = one.get("spec", {})
        if "template" in spec:
            kept = {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
            pod(name, spec["template"]["spec"], kept)
            labels = spec["template"]["metadata"]["labels"].items()
            expect(spec["selector"]["matchLabels"].items() <= labels, f"{name} doesn't select its own pods")
            service = spec.get("serviceName")
            expect(service is None or ("Service", service) in named, f"{name}: there is no service {service}")
        if one["kind"] == "ScaledObject":
            target = spec["scaleTargetRef"]
            scaled = named.get((target["kind"], target["name"]))
            expect(scaled and "replicas" not in scaled["spec"], f"{name}: its target has a number of its own, or isn't there")
            for trigger in spec["triggers"]:
                reference = trigger["authenticationRef"]["name"]
                expect(("TriggerAuthentication", reference) in named, f"{name}: there is no {reference}")
    given = {name: one.get("data", {}) for (kind, name), one in named.items() if kind == "Secret"}
    if given:
        for name, key in secrets(objects):
            expect(name in given and (key is None or key in given[name]), f"the secret {name} has no {key or 'object'}")
    return f"{len(objects)} objects"


def compose(text):
    services = json.loads(text)["services"]
    for name, service in services.items():
        expect(service.get("read_only") and service.get("cap_drop") == ["ALL"], f"{name} may write or do too much")
        kept = service.get("cap_add") or []
        expect(not kept or (name == "secrets" and kept == ["CHOWN"]), f"{name} keeps capabilities")
        for port in service.get("ports", []):
            expect(port.get("host_ip") == "127.0.0.1", f"{name} publishes a port beyond loopback")
        if "build" not in service:
            tag = service["image"].rpartition(":")[2]
            expect(tag[:1].isdigit() or tag[:2].rstrip("0123456789") == "v", f"{name}: its image has no version")
        for key, value in (service.get("environment") or {}).items():
            expect("PASSWORD" not in key or key.endswith("_FILE") or len(value or "") > 40, f"{name}: {key} is a password to guess")
    return f"{len(services)} services"


looked = {"kubernetes": kubernetes, "compose": compose}[sys.argv[1]](pathlib.Path(sys.argv[2]).read_text())
for problem in problems:
    print(f"manifests.py: {problem}", file=sys.stderr)
if not problems:
    print(looked)
sys.exit(bool(problems))
