#!/bin/sh
# kubernetes-secrets.sh [FOLDER]: makes an overlay of deploy/kubernetes that is yours, in FOLDER below this repository, else in
# .ralph/kubernetes: with a password for each user of Postgres and NATS, and the token of the API. `kubectl apply -k FOLDER` runs
# it. A second run changes nothing.
#
#   kustomization.yaml                                 yours: images, how many, with which components
#   postgres.env nats.env coordinator.env worker.env   what each part alone is told
#   token                                              of the API, with all roles
#   api.json                                           address and token, for `ralph-coordinator --data FOLDER` and a port-forward
#   agent.env git/config                               yours: agents' keys, and how workers log in to repositories
set -eu
umask 077

cd "$(dirname "$0")/.."
. scripts/secret.sh
folder=${1:-.ralph/kubernetes}

case $folder in
/* | *..*)
    echo "kubernetes-secrets: name a folder below this repository, since its manifests are found from there" >&2
    exit 2
    ;;
esac
if [ -e "$folder" ]; then
    if ! [ -s "$folder/token" ]; then
        echo "kubernetes-secrets: $folder was not made by this script; name another folder, or remove this one" >&2
        exit 1
    fi
    echo "kubernetes-secrets: it is there already: $folder" >&2
    exit 0
fi

mkdir -p "$(dirname "$folder")"
new=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$new"' EXIT
trap 'exit 1' INT TERM HUP
mkdir "$new/git"

database=$(secret) coordinator=$(secret) worker=$(secret)
cat >"$new/postgres.env" <<END
POSTGRES_USER=ralph
POSTGRES_DB=ralph
POSTGRES_PASSWORD=$database
END
cat >"$new/nats.env" <<END
NATS_COORDINATOR_PASSWORD=$coordinator
NATS_WORKER_PASSWORD=$worker
END
cat >"$new/coordinator.env" <<END
DATABASE_URL=postgres://ralph:$database@ralph-postgres:5432/ralph
NATS_URL=nats://coordinator:$coordinator@ralph-nats:4222
END
cat >"$new/worker.env" <<END
NATS_URL=nats://worker:$worker@ralph-nats:4222
END
secret >"$new/token"
printf '{ "url": "http://127.0.0.1:7226", "token": "%s" }\n' "$(cat "$new/token")" >"$new/api.json"
cat >"$new/agent.env" <<'END'
# Keys of the agents; RALPH_PASS_ENV of the workers names those that agents get.
#ANTHROPIC_API_KEY=
END
cat >"$new/git/config" <<'END'
# git's configuration in workers. The files that are named here stand in kustomization.yaml beside this one.
#[credential]
#	helper = store --file /etc/ralph/git/credentials
#[core]
#	sshCommand = ssh -i /etc/ralph/git/key -o UserKnownHostsFile=/etc/ralph/git/known_hosts
[user]
	name = Ralph
	email = ralph@example.org
END
up=$(printf '%s' "$folder" | sed 's|[^/][^/]*|..|g')
cat >"$new/kustomization.yaml" <<END
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: ralph
resources: [$up/deploy/kubernetes/base]
components:
  # Postgres and NATS to try it out. Without them, the addresses in coordinator.env and worker.env name your own.
  - $up/deploy/kubernetes/components/servers
  # As many workers as there is work; needs KEDA.
  #- $up/deploy/kubernetes/components/autoscale
images:
  - { name: ralph-coordinator, newName: ralph-coordinator, newTag: local }
  - { name: ralph-worker, newName: ralph-worker, newTag: local }
  - { name: ralph-nats, newName: ralph-nats, newTag: local }
replicas:
  - { name: ralph-coordinator, count: 2 }
secretGenerator:
  - { name: ralph-postgres, envs: [postgres.env] }
  - { name: ralph-nats, envs: [nats.env] }
  - { name: ralph-coordinator, envs: [coordinator.env] }
  - { name: ralph-worker, envs: [worker.env] }
  - { name: ralph-token, files: [token] }
  - { name: ralph-agent, envs: [agent.env] }
  - name: ralph-git
    files:
      - git/config
      #- git/credentials
      #- git/key
      #- git/known_hosts
# What runs keeps the secrets and the configuration that it began with until you start it anew (\`kubectl rollout restart\`).
generatorOptions: { disableNameSuffixHash: true }
END

mv "$new" "$folder"
echo "kubernetes-secrets: wrote $folder; put your agent's key into agent.env and the names of your images into kustomization.yaml there" >&2
