#!/bin/sh
# Run by `docker compose run --rm demo`: submits the feature of examples/todo, waits for its end, checks what landed and shows it.
set -eu
cd /home/ralph
repository=git://git/todo.git
feature=todo-$(date +%H%M%S)

git config --global user.name Demo
git config --global user.email demo@localhost
if ! git ls-remote --exit-code "$repository" main >/dev/null 2>&1; then
    cp -R /opt/examples/todo/repo start
    git -C start init --quiet --initial-branch main
    git -C start add --all
    git -C start commit --quiet --message "Start of the todo example"
    git -C start push --quiet "$repository" main
fi
ralph submit feature "$feature" --tasks /opt/examples/todo/tasks.yaml --repo "$repository" --pool demo --wait
git clone --quiet "$repository" todo
git -C todo branch --quiet "ralph/$feature" "origin/ralph/$feature"
git -C todo --no-pager log --graph --format='%h %s  %(trailers:key=Ralph-Task,separator=%x2C%x20)' "ralph/$feature"
/opt/examples/todo/check.sh "$PWD/todo" "ralph/$feature"
